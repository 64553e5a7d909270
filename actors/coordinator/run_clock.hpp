// Measures two times of a run: the time since its first step, and the training time, which excludes the time in which
// its workers were held back. Callers pass the current time.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

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

  /// Returns both times at `now`; resume() continues from them.
  std::vector<std::uint64_t> state(time_point now) const {
    return {static_cast<std::uint64_t>((now - begun_).count()),
            static_cast<std::uint64_t>((held_back_ + (held_ ? now - *held_ : time_point::duration{})).count()),
            held_ ? 1U : 0U};
  }

  void resume(const std::vector<std::uint64_t>& from, time_point now) {
    begun_ = now - time_point::duration{static_cast<time_point::rep>(from.at(0))};
    held_back_ = time_point::duration{static_cast<time_point::rep>(from.at(1))};
    held_ = from.at(2) != 0 ? std::optional{now} : std::nullopt;
  }

 private:
  time_point begun_{};
  std::optional<time_point> held_{};  ///< Time since which all workers have been waiting.
  time_point::duration held_back_{};  ///< Total time they waited before.
};

}  // namespace troupe::rules
