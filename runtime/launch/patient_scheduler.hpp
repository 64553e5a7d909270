// The scheduler of the actors of a process. Its clock is paused while the process is stopped (Ctrl-Z, SIGSTOP, a frozen
// container), so that no time limit of an actor expires while the process cannot act (decision 0021).
#pragma once

#include <caf/detail/thread_safe_actor_clock.hpp>
#include <caf/policy/work_sharing.hpp>
#include <caf/scheduler/coordinator.hpp>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace troupe {

/// Counts the time during which this process could run.
class running_time {
 public:
  using clock = std::chrono::steady_clock;

  explicit running_time(clock::time_point begin) : looked_(begin) {}

  /// Returns `now` minus the time during which the process was stopped. A gap between looks counts as at most
  /// longest_gap.
  clock::time_point at(clock::time_point now) const { return now - lost_ - excess(now); }

  /// Records that the process runs at `now`. Must be called often.
  void look(clock::time_point now) {
    lost_ += excess(now);
    looked_ = now;
  }

  /// Longest time between two looks of a process that was not stopped, however busy the machine is.
  static constexpr std::chrono::milliseconds longest_gap{500};

 private:
  clock::duration excess(clock::time_point now) const {
    const auto gap = now - looked_;
    return gap > longest_gap ? gap - longest_gap : clock::duration{0};
  }

  clock::time_point looked_;
  clock::duration lost_{0};
};

/// An actor clock that measures the running time of the process.
class patient_clock final : public caf::detail::thread_safe_actor_clock {
 public:
  patient_clock() : time_(clock_type::now()) {}

  time_point now() const noexcept override;
  void set_ordinary_timeout(time_point t, caf::abstract_actor* self, caf::atom_value type, std::uint64_t id) override;
  void set_request_timeout(time_point t, caf::abstract_actor* self, caf::message_id id) override;
  void set_multi_timeout(time_point t, caf::abstract_actor* self, caf::atom_value type, std::uint64_t id) override;
  void cancel_ordinary_timeout(caf::abstract_actor* self, caf::atom_value type) override;
  void cancel_request_timeout(caf::abstract_actor* self, caf::message_id id) override;
  void cancel_timeouts(caf::abstract_actor* self) override;
  void schedule_message(time_point t, caf::strong_actor_ptr receiver, caf::mailbox_element_ptr content) override;
  void schedule_message(time_point t, caf::group target, caf::strong_actor_ptr sender, caf::message content) override;
  void cancel_all() override;

  /// Triggers what is due until stop() is called.
  void run();
  void stop();

 private:
  template <class Change>
  void change(Change what);

  mutable std::recursive_mutex mutex_;  ///< Recursive: a time limit may hold the last reference to an actor.
  std::condition_variable_any changed_;
  running_time time_;
  bool stops_{false};
};

/// CAF's scheduler with one queue for all threads, and a patient clock.
class patient_scheduler final : public caf::scheduler::coordinator<caf::policy::work_sharing> {
 public:
  using super = caf::scheduler::coordinator<caf::policy::work_sharing>;
  using super::super;

  static caf::actor_system::module* make(caf::actor_system& system, caf::detail::type_list<>);

  patient_clock& clock() noexcept override { return clock_; }

 protected:
  void start() override;
  void stop() override;

 private:
  patient_clock clock_;
  std::thread dispatcher_;
};

}  // namespace troupe
