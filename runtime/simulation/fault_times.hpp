// When the faults of a simulated run happen: before a message, at a step or at a time.
#pragma once

#include "troupe/runtime/plan/plan.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace troupe {

/// A fault of a simulated run. If `lasting` is 0, a fault with a duration lasts to the end of the run.
struct node_fault {
  enum class kind : std::uint8_t {
    kill,           ///< `node` is killed.
    freeze,         ///< `node` is paused for `lasting`.
    cut,            ///< Nothing passes between `node` and `other` for `lasting`.
    reset_tensors,  ///< The tensor connection between them is reset.
    reset_control,  ///< The control connection between them is reset.
    slow,           ///< For `lasting`, messages between them take `delay` longer.
    interrupt,      ///< `node` receives SIGTERM.
  };
  kind what{kind::kill};
  /// Trigger: number (from 0) of the inter-node message before which the fault happens.
  std::uint64_t before{0};
  /// Trigger: number of steps that every worker has completed (on average if the workers share a budget of steps);
  /// overrides `before`.
  std::optional<std::uint64_t> at_step{};
  /// Trigger: time since training began; overrides `before` and `at_step`.
  std::optional<std::chrono::microseconds> at_time{};
  std::uint32_t node{1}, other{0};
  std::chrono::microseconds lasting{0}, delay{0};
  std::size_t planned{0};  ///< Index of the fault in the plan, if it comes from the plan.
};

class fault_times {
 public:
  using time = std::chrono::nanoseconds;  ///< Virtual time since the simulation began.

  fault_times(const plan& plan, const std::vector<node_fault>& faults);

  /// Notes that training begins at `now`.
  void begin(time now) { began_ = now; }

  /// Notes how many steps a worker has completed.
  void note_step(std::uint32_t rank, std::uint64_t completed);

  /// Returns the faults that are due at `now` or after `messages` messages between nodes. Returns each fault once.
  std::vector<node_fault> take_due(std::uint64_t messages, time now);

  /// Returns the faults that have not happened yet.
  std::vector<node_fault> waiting() const;

  /// Returns when the next fault that is triggered by time is due.
  std::optional<time> next_due() const;

 private:
  struct waiting_fault {
    node_fault what;
    std::size_t behind{0};  ///< Number of workers that have not completed what.at_step steps.
  };

  bool is_due(const waiting_fault& fault, std::uint64_t messages, time now) const;

  std::vector<waiting_fault> waiting_;
  std::vector<std::uint64_t> completed_;  ///< Number of completed steps, by rank.
  std::uint64_t total_{0};                ///< Sum of `completed_`.
  bool queued_;                           ///< Whether the workers share a budget of steps.
  std::optional<time> began_;
};

}  // namespace troupe
