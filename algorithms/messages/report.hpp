// A step that every worker has reported, until its lines have been written.
#pragma once

#include "troupe/algorithms/messages/messages.hpp"

#include <cstdint>
#include <deque>
#include <optional>

namespace troupe::rules {

struct report {
  record line;                      ///< The numbers known so far.
  bool epoch_ends{false};           ///< Whether an epoch ends at this step.
  bool evaluated{false};            ///< Whether the schedule requires an evaluation of this step.
  std::optional<snapshot> result;   ///< The result of the step, if it has been assembled.
  std::optional<evaluation> found;  ///< Evaluation of `result`.
  std::deque<snapshot> replicas;    ///< Replicas that are still to be evaluated, by rank.
  bool ends{false};                 ///< Whether it is the last report of a run whose workers end at different steps.
  bool recorded{false};             ///< Whether the recorder has received `found`.
  double epoch_seconds{0};          ///< Used only if epoch_ends.
  std::optional<double> epoch_train_loss;  ///< Mean loss of the epoch; used only if epoch_ends.

  /// Stores the next evaluation: that of the result, then those of the replicas.
  void take(const evaluation& next);
};

/// What must happen to a report next.
enum class report_action : std::uint8_t {
  assemble,          ///< Assemble the result from replicas and servers.
  evaluate_result,   ///< Evaluate the result.
  evaluate_replica,  ///< Evaluate the first of `replicas`.
  write,             ///< Write its lines.
};

struct report_needs {
  bool evaluated{false};  ///< Whether an evaluation is written for the step.
  bool whole{false};      ///< Whether the whole result is required, including what replicas hold of it.
  /// Whether servers hold parameters; every line then reports the staleness they have counted.
  bool from_servers{false};
  std::int64_t elements{0};  ///< Number of elements of a whole result.
};

report_action next_action(const report& one, const report_needs& needs);

}  // namespace troupe::rules
