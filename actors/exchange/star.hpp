// Gather and scatter at a master: rank 0 folds everybody's gradients in rank order and sends the mean back.
#pragma once

#include "troupe/actors/exchange/registry.hpp"

namespace troupe {

/// One message up and one down for each bucket (see buckets.hpp). `send = "whole"`: the gather is over before the
/// scatter begins. `send = "parameter"`: as with isend and irecv, means leave while backward still computes other
/// parameters. Same bits. Source: the textbook master/worker reduction (e.g. Grama et al., Introduction to Parallel
/// Computing, §4.1).
exchange_kind star_kind();

}  // namespace troupe
