// The two times of a run: the time since its first step, and the same without the time in which its workers were held
// back. It has no clock of its own: callers pass the time.
#pragma once

#include <chrono>
#include <optional>

namespace troupe::rules {

class run_clock {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  /// Starts both times.
  void begin(time_point now) { begun_ = now; }

  /// Stops the training time: from `now` on, all workers wait.
  void hold(time_point now) {
    if (!held_) held_ = now;
  }

  /// Restarts the training time.
  void release(time_point now) {
    if (held_) held_back_ += now - *held_;
    held_.reset();
  }

  /// Returns the seconds since the start.
  double seconds(time_point now) const { return std::chrono::duration<double>(now - begun_).count(); }

  /// Returns the seconds without the time in which the workers were held back.
  double train_seconds(time_point now) const { return seconds(held_.value_or(now) - held_back_); }

 private:
  time_point begun_{};
  std::optional<time_point> held_{};  ///< Time since which all workers have been waiting.
  time_point::duration held_back_{};  ///< Total time they waited before.
};

}  // namespace troupe::rules
