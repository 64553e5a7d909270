#include "troupe/runtime/launch/patient_scheduler.hpp"

#include <algorithm>
#include <pthread.h>
#include <utility>

namespace troupe {

namespace {

/// Interval between looks at the clock when nothing is due.
constexpr std::chrono::milliseconds between_looks{200};

}  // namespace

patient_clock::time_point patient_clock::now() const noexcept {
  const std::lock_guard lock{mutex_};
  return time_.at(clock_type::now());
}

/// Changes the schedule, which simple_actor_clock holds without locking it.
template <class Change>
void patient_clock::change(Change what) {
  const std::lock_guard lock{mutex_};
  const auto first = schedule_.empty() ? time_point::max() : schedule_.begin()->first;
  what();
  if (!schedule_.empty() && schedule_.begin()->first < first) changed_.notify_one();
}

void patient_clock::set_ordinary_timeout(time_point t, caf::abstract_actor* self, caf::atom_value type,
                                         std::uint64_t id) {
  change([&] { simple_actor_clock::set_ordinary_timeout(t, self, type, id); });
}

void patient_clock::set_request_timeout(time_point t, caf::abstract_actor* self, caf::message_id id) {
  change([&] { simple_actor_clock::set_request_timeout(t, self, id); });
}

void patient_clock::set_multi_timeout(time_point t, caf::abstract_actor* self, caf::atom_value type, std::uint64_t id) {
  change([&] { simple_actor_clock::set_multi_timeout(t, self, type, id); });
}

void patient_clock::cancel_ordinary_timeout(caf::abstract_actor* self, caf::atom_value type) {
  change([&] { simple_actor_clock::cancel_ordinary_timeout(self, type); });
}

void patient_clock::cancel_request_timeout(caf::abstract_actor* self, caf::message_id id) {
  change([&] { simple_actor_clock::cancel_request_timeout(self, id); });
}

void patient_clock::cancel_timeouts(caf::abstract_actor* self) {
  change([&] { simple_actor_clock::cancel_timeouts(self); });
}

void patient_clock::schedule_message(time_point t, caf::strong_actor_ptr receiver, caf::mailbox_element_ptr content) {
  change([&] { simple_actor_clock::schedule_message(t, std::move(receiver), std::move(content)); });
}

void patient_clock::schedule_message(time_point t, caf::group target, caf::strong_actor_ptr sender,
                                     caf::message content) {
  change([&] { simple_actor_clock::schedule_message(t, std::move(target), std::move(sender), std::move(content)); });
}

void patient_clock::cancel_all() {
  change([&] { simple_actor_clock::cancel_all(); });
}

void patient_clock::run() {
  std::unique_lock lock{mutex_};
  while (!stops_) {
    time_.look(clock_type::now());
    trigger_expired_timeouts();
    auto pause = clock_type::duration{between_looks};
    if (!schedule_.empty()) pause = std::clamp(schedule_.begin()->first - now(), clock_type::duration{0}, pause);
    changed_.wait_for(lock, pause);
  }
}

void patient_clock::stop() {
  const std::lock_guard lock{mutex_};
  stops_ = true;
  changed_.notify_one();
}

caf::actor_system::module* patient_scheduler::make(caf::actor_system& system, caf::detail::type_list<>) {
  return new patient_scheduler(system);
}

void patient_scheduler::start() {
  dispatcher_ = std::thread{[this] {
    pthread_setname_np(pthread_self(), "troupe.clock");
    system().thread_started();
    clock_.run();
    system().thread_terminates();
  }};
  super::start();
}

void patient_scheduler::stop() {
  super::stop();
  clock_.stop();
  dispatcher_.join();
  clock_.cancel_all();
}

}  // namespace troupe
