// When the faults of a simulated run happen: before a message, at a step or at a time.
#pragma once

#include "troupe/runtime/plan/plan.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace troupe {

/// A fault of a simulated run. Lasting faults last to the end of the run if their time is 0.
struct node_fault {
  enum class kind : std::uint8_t {
    kill,           ///< `node` is killed.
    freeze,         ///< `node` stands still for `lasting`.
    cut,            ///< Nothing passes between `node` and `other` for `lasting`.
    reset_tensors,  ///< The tensor connection between them is reset.
    reset_control,  ///< The control connection between them is reset.
    slow,           ///< For `lasting`, messages between them take `delay` longer.
    interrupt,      ///< `node` receives SIGTERM.
  };
  kind what{kind::kill};
  std::uint64_t before{0};  ///< It happens before the message with this number, from 0, is delivered between nodes;
  std::optional<std::uint64_t> at_step{};              ///< or when every worker has completed so many steps;
  std::optional<std::chrono::microseconds> at_time{};  ///< or so long after training began.
  std::uint32_t node{1}, other{0};
  std::chrono::microseconds lasting{0}, delay{0};
  std::size_t planned{0};  ///< Its index in the plan, if it is planned.
};

class fault_times {
 public:
  using time = std::chrono::nanoseconds;  ///< Virtual time, since the simulation began.

  fault_times(const plan& plan, const std::vector<node_fault>& faults);

  /// Notes that training begins at `now`.
  void begin(time now) { began_ = now; }

  /// Notes how many steps a worker has completed.
  void note_step(std::uint32_t rank, std::uint64_t completed);

  /// Returns the faults that happen now, after so many messages between nodes. Each is returned once.
  std::vector<node_fault> take_due(std::uint64_t messages, time now);

  /// Returns the faults that have not happened yet.
  std::vector<node_fault> waiting() const;

  /// Returns when the next fault with a time happens.
  std::optional<time> next_due() const;

 private:
  struct waiting_fault {
    node_fault what;
    std::size_t behind{0};  ///< Number of workers that have not completed what.at_step steps.
  };

  bool is_due(const waiting_fault& fault, std::uint64_t messages, time now) const;

  std::vector<waiting_fault> waiting_;
  std::vector<std::uint64_t> completed_;  ///< Steps, by rank.
  std::uint64_t total_{0};                ///< Their sum.
  bool queued_;                           ///< Whether the workers share a budget of steps.
  std::optional<time> began_;
};

}  // namespace troupe
