// Gather and scatter at a master: rank 0 folds all workers' gradients in rank order and sends the mean back.
#pragma once

#include "troupe/algorithms/exchange/registry.hpp"

namespace troupe {

/// Returns the kind. Each bucket (see buckets.hpp) takes one message up and one down. `send = "whole"`: the gather ends
/// before the scatter begins. `send = "parameter"`: as with isend and irecv, means are sent while backward still
/// computes other parameters. Both give the same bits. Source: the textbook master/worker reduction (e.g. Grama et al.,
/// Introduction to Parallel Computing, §4.1).
exchange_kind star_kind();

}  // namespace troupe
