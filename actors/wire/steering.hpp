// What a guest makes a run do, as a message to the coordinator.
#pragma once

#include "troupe/actors/wire/inspect.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace troupe {

/// The outcome of an order.
struct order_answer {
  std::string refusal{};  ///< Why nothing was done; empty if it was.
  std::uint64_t step{0};  ///< Completed steps of the run where the order took effect.
};

/// An order to the coordinator of a run, which carries it out between two steps.
struct steering_order {
  /// The numbers are part of the format of a recording.
  enum class kind : std::uint32_t {
    pause = 1,   ///< All workers stop at the next step boundary that each of them can reach.
    go_on,       ///< Ends a pause.
    checkpoint,  ///< Writes a checkpoint there.
    halt,        ///< Ends the run in good order.
    rate,        ///< Sets the learning rate from a step on.
  };
  kind what{kind::pause};
  std::uint64_t step{0};  ///< `rate` only: completed steps from which on it applies; 0 for as soon as possible.
  double lr{0};           ///< `rate` only: the learning rate before the schedule is applied.
  std::string guest{};    ///< Name of the guest; empty in a replay.
  std::shared_ptr<const std::function<void(const order_answer&)>> answer{};  ///< Called once; null in a replay.
};

/// Returns the name of an order in metrics.jsonl, such as "pause".
std::string name_of(steering_order::kind what);

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, steering_order& x) {
  return detail::inspect_local(f, "steering_order", x.step);
}

}  // namespace troupe
