// The part of a worker's state that a checkpoint contains; complete when no step is under way. Compute and ports have
// states of their own.
#pragma once

#include "troupe/algorithms/messages/messages.hpp"
#include "troupe/algorithms/messages/state_dict.hpp"
#include "troupe/algorithms/rules/loop.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace troupe {

struct worker_progress {
  /// x, stamped with the steps it has made, whether or not they are completed.
  snapshot now;
  std::optional<part> gradient;  ///< g, if it has not been applied yet.
  std::uint64_t completed{0};    ///< Completed steps.
  milestone tally;               ///< Sums since the last milestone; `step` and `bytes_sent` are not used.
  /// Tensor bytes sent, by place of the exchange; the last entry is that of synchronised norms.
  std::vector<std::uint64_t> payload_bytes;
  std::optional<std::uint64_t> reported;  ///< Step of the last milestone.
  std::optional<std::uint64_t> shown;     ///< Step of the last snapshot sent to the coordinator.
  /// The last exchange of parameters after `shown`, for the distances between workers: x before it, and its answer.
  std::optional<snapshot> contributed;
  std::optional<outcome> mixed;
  rules::report_times reports;  ///< Only its assignments are part of the state.

  /// Returns x right after the last exchange of parameters, if `contributed` and `mixed` are known.
  std::optional<snapshot> after_mixing() const;

  /// Returns the state. x and g must be complete and in host memory.
  state_dict state() const;

  /// Restores a state for a worker of `run`. Throws state_error if the state belongs to another model.
  void restore(const state_dict& from, run_id run);
};

}  // namespace troupe
