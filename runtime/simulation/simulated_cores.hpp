// The cores of a simulated node, which its lanes share.
#pragma once

#include <caf/actor.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <unordered_map>

namespace troupe {

/// Longest delay of a message in a simulation. A message with this delay ends the simulation, which lasts at most a
/// hundred years.
inline constexpr std::chrono::hours longest_delay{24 * 36'525 + 1};

/// Cores that are shared equally by the lanes that have work, as an operating system shares them in slices: if there
/// are more such lanes than cores, all of them slow down. Progress, in microseconds, is the amount of work that a lane
/// without pauses has done since the simulation began. It is the same for all lanes and grows as fast as virtual time
/// while there are enough cores. The times passed to the functions are points in virtual time and never decrease.
class simulated_cores : public std::enable_shared_from_this<simulated_cores> {
 public:
  using time = std::chrono::microseconds;
  using lane_id = const void*;

  explicit simulated_cores(std::size_t count) : count_(static_cast<double>(count)) {}

  double progress(time now);

  /// Gives a lane work from now on until the progress reaches `until`.
  void occupy(lane_id lane, double until, time now);

  /// Runs `what` in a handler of `owner` once the progress reaches `when`.
  void call_at(double when, lane_id lane, const caf::actor& owner, std::function<void()> what, time now);

  /// Removes a lane and its pending calls.
  void remove(lane_id lane, time now);

 private:
  struct call {
    lane_id lane;
    caf::actor owner;
    std::function<void()> what;
  };

  void leave(lane_id lane);
  time time_of(double progress) const;
  void set_alarm(time now);
  void wake(time now);

  double count_;
  double progress_{0}, reached_at_{0};        ///< `progress_` was reached at the time `reached_at_`.
  std::multimap<double, lane_id> occupants_;  ///< Lanes with work, by the progress at which it ends.
  std::unordered_map<lane_id, std::multimap<double, lane_id>::iterator> where_;
  std::multimap<double, call> calls_;  ///< Pending calls, by progress.
  time alarm_{time::max()};            ///< When wake() is called next.
};

}  // namespace troupe
