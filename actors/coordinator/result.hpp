// The result of a step, assembled from the values of the workers and the servers.
#pragma once

#include "troupe/algorithms/messages/messages.hpp"
#include "troupe/models/storage/buffer_pool.hpp"
#include "troupe/models/storage/flat.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace troupe::rules {

/// Snapshots that workers have sent for a step: [P + B] each.
using replicas_by_rank = std::map<rank_id, snapshot>;

struct result_options {
  models::flat_layout layout{};
  models::buffer_pool pool{};
  bool replicas_agree{true};  ///< Whether all parameters are equal; otherwise the mean is used.
  /// Whether the float buffers are those of the lowest rank; otherwise their mean is used.
  bool first_buffers{false};
  /// Weights of the servers if each holds all parameters and the result is their weighted mean; empty if each holds a
  /// share of them.
  std::vector<std::int64_t> holder_weights{};
};

struct step_result {
  at::Tensor values{};               ///< [P + B]; or [P] if servers hold it and no worker has sent buffers.
  std::optional<double> distance{};  ///< sqrt(meanᵢ ‖xᵢ − x̄‖²) over the parameters, if they may differ.
  std::optional<double> distance_before{};  ///< The same before the last exchange of parameters.
  std::optional<double> distance_after{};   ///< The same right after that exchange.
};

/// Returns the consensus distance sqrt(meanᵢ ‖xᵢ − x̄‖²) over the parameters of `replicas`.
double distance_of(const replicas_by_rank& replicas, const result_options& options);

/// Returns the parameters [P] that the servers hold together: their shares side by side, or their weighted mean.
/// Returns an undefined tensor if `held` is empty.
at::Tensor held_together(const std::vector<span>& held, const result_options& options);

/// Returns the result of a step: the parameters `held` [P] by servers, if defined, and the rest from the replicas. May
/// alias its arguments.
step_result result_of(const replicas_by_rank& replicas, at::Tensor held, const result_options& options);

}  // namespace troupe::rules
