// Checks how much of this machine's memory a run needs at least, before anything is allocated.
#pragma once

#include "troupe/runtime/plan/plan.hpp"

#include <cstdint>
#include <vector>

namespace troupe {

/// Throws input_error if the weights and the gradient of one worker, one of its batches, or a batch of an evaluation
/// need more memory than there is. Uses the model, its shape, the sampling and the facts of the plan.
void check_memory(const planned_work& so_far);

/// Throws input_error if one of these nodes has more workers than a process can run, each with a thread, or if the
/// parameters and gradients of all their workers that compute on the CPU need more of this machine's memory than is
/// available. `nodes` holds at least one index in the plan.
void check_workers(const planned_exchanges& plan, const std::vector<std::uint32_t>& nodes);

}  // namespace troupe
