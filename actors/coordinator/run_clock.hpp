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

  /// What the workers wait for while the training time stands still.
  enum class cause : std::uint8_t { verdict, guest };

  /// Stops the training time: from `now` on, all workers wait.
  void hold(time_point now, cause why = cause::verdict) {
    if (!held_) held_ = now;
    (why == cause::verdict ? for_verdict_ : for_guest_) = true;
  }

  /// Restarts the training time, unless the workers also wait for something else.
  void release(time_point now, cause why = cause::verdict) {
    (why == cause::verdict ? for_verdict_ : for_guest_) = false;
    if (for_verdict_ || for_guest_) return;
    if (held_) held_back_ += now - *held_;
    held_.reset();
  }

  /// Returns the seconds since the start.
  double seconds(time_point now) const { return std::chrono::duration<double>(now - begun_).count(); }

  /// Returns the seconds without the time in which the workers were held back.
  double train_seconds(time_point now) const { return seconds(held_.value_or(now) - held_back_); }

  /// Returns both times at `now`; resume() continues from them. A guest does not hold the continued run.
  std::vector<std::uint64_t> state(time_point now) const {
    return {static_cast<std::uint64_t>((now - begun_).count()),
            static_cast<std::uint64_t>((held_back_ + (held_ ? now - *held_ : time_point::duration{})).count()),
            for_verdict_ ? 1U : 0U};
  }

  void resume(const std::vector<std::uint64_t>& from, time_point now) {
    begun_ = now - time_point::duration{static_cast<time_point::rep>(from.at(0))};
    held_back_ = time_point::duration{static_cast<time_point::rep>(from.at(1))};
    for_verdict_ = from.at(2) != 0;
    held_ = for_verdict_ ? std::optional{now} : std::nullopt;
  }

 private:
  time_point begun_{};
  bool for_verdict_{false}, for_guest_{false};
  std::optional<time_point> held_{};  ///< Time since which all workers have been waiting.
  time_point::duration held_back_{};  ///< Total time they waited before.
};

}  // namespace troupe::rules
