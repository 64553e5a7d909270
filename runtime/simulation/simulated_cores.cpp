#include "troupe/runtime/simulation/simulated_cores.hpp"

#include "troupe/actors/wire/type_ids.hpp"

#include <caf/all.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

namespace troupe {

namespace {

/// Returns the time in which the progress grows by one.
double slowness(double occupied, double cores) {
  return std::max(1.0, occupied / cores);
}

/// Upper bound on the rounding errors of sums of times, in microseconds.
constexpr double tolerance = 1e-2;

}  // namespace

double simulated_cores::progress(time now) {
  const auto until = static_cast<double>(now.count());
  while (!occupants_.empty()) {
    const auto [end, first] = *occupants_.begin();
    const auto reached_at = reached_at_ + std::max(0.0, end - progress_) * slowness(occupants_.size(), count_);
    if (reached_at > until) break;
    progress_ = std::max(progress_, end);
    reached_at_ = reached_at;
    leave(first);
  }
  progress_ += std::max(0.0, until - reached_at_) / slowness(occupants_.size(), count_);
  reached_at_ = std::max(reached_at_, until);
  return progress_;
}

void simulated_cores::occupy(lane_id lane, double until, time now) {
  progress(now);
  leave(lane);
  if (until > progress_) where_[lane] = occupants_.emplace(until, lane);
  set_alarm(now);
}

void simulated_cores::call_at(double when, lane_id lane, const caf::actor& owner, std::function<void()> what,
                              time now) {
  progress(now);
  calls_.emplace(when, call{lane, owner, std::move(what)});
  set_alarm(now);
}

void simulated_cores::remove(lane_id lane, time now) {
  progress(now);
  leave(lane);
  for (auto entry = calls_.begin(); entry != calls_.end();)
    entry = entry->second.lane == lane ? calls_.erase(entry) : std::next(entry);
  alarm_ = time::max();  // the actor that was to receive the alarm may have ended
  set_alarm(now);
}

void simulated_cores::leave(lane_id lane) {
  const auto occupant = where_.find(lane);
  if (occupant == where_.end()) return;
  occupants_.erase(occupant->second);
  where_.erase(occupant);
}

/// Returns when the progress reaches `progress`, if no other lane gets work until then.
simulated_cores::time simulated_cores::time_of(double progress) const {
  auto at = reached_at_, reached = progress_;
  auto occupied = occupants_.size();
  for (const auto& [end, lane] : occupants_) {
    if (end >= progress) break;
    at += std::max(0.0, end - reached) * slowness(occupied, count_);
    reached = std::max(reached, end);
    --occupied;
  }
  at += std::max(0.0, progress - reached) * slowness(occupied, count_);
  const auto latest = reached_at_ + static_cast<double>(time{longest_delay}.count());
  return time{std::llround(std::ceil(std::min(at, latest) - tolerance / 2))};
}

/// Ensures that wake() is called in time for the first call. A wake() that comes too early sets another alarm.
void simulated_cores::set_alarm(time now) {
  if (calls_.empty()) return;
  const auto& [when, first] = *calls_.begin();
  const auto due = std::max(now, time_of(when));
  if (due >= alarm_) return;
  alarm_ = due;
  const auto& clock = first.owner->home_system().clock();
  auto ring = [cores = weak_from_this(), &clock] {
    if (const auto alive = cores.lock()) alive->wake(std::chrono::duration_cast<time>(clock.now().time_since_epoch()));
  };
  caf::delayed_anon_send(first.owner, std::min<time>(due - now, longest_delay), done_atom_v,
                         completion{std::make_shared<std::function<void()>>(std::move(ring))});
}

void simulated_cores::wake(time now) {
  progress(now);
  if (alarm_ <= now) alarm_ = time::max();
  while (!calls_.empty() && calls_.begin()->first <= progress_ + tolerance) {
    auto due = std::move(calls_.begin()->second);
    calls_.erase(calls_.begin());
    caf::anon_send(due.owner, done_atom_v, completion{std::make_shared<std::function<void()>>(std::move(due.what))});
  }
  set_alarm(now);
}

}  // namespace troupe
