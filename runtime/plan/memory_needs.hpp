// What a run needs at least of this machine's memory, known before anything is allocated.
#pragma once

#include "troupe/runtime/plan/plan.hpp"

#include <cstdint>

namespace troupe {

/// Throws input_error if the weights and the gradient of one worker, one of its batches, or a batch of an evaluation
/// need more memory than there is. Uses the model, its shape, the sampling and the facts of the plan.
void check_memory(const plan& so_far);

/// Throws input_error if there are more workers than one process can run, each with a thread, or if their parameters
/// and gradients, with those of other nodes on this machine, need more memory than there is.
void check_workers(const plan& plan, std::uint32_t node);

}  // namespace troupe
