// The result of a step, put together from what the workers and the servers have of it.
#pragma once

#include "troupe/actors/messages.hpp"
#include "troupe/models/buffer_pool.hpp"
#include "troupe/models/flat.hpp"

#include <map>
#include <optional>

namespace troupe::rules {

/// What workers have shown of a step: [P + B] each.
using replicas_by_rank = std::map<rank_id, snapshot>;

struct result_options {
  models::flat_layout layout{};
  models::buffer_pool pool{};
  bool replicas_agree{true};  ///< Their parameters are equal; else the mean counts.
  bool first_buffers{false};  ///< The float buffers are those of the lowest rank; else their mean.
};

struct step_result {
  at::Tensor values;                 ///< [P + B]; or [P], where servers hold it and no worker has shown buffers.
  std::optional<double> distance{};  ///< sqrt(meanᵢ ‖xᵢ − x̄‖²) over the parameters, where they may differ.
};

/// Returns the result of a step: `held` [P] by servers, if defined, and what the replicas have of the rest. May alias
/// what it is given.
step_result result_of(const replicas_by_rank& replicas, at::Tensor held, const result_options& options);

}  // namespace troupe::rules
