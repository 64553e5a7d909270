// Gather and scatter at a master: rank 0 folds everybody's gradients in rank order and sends the mean back.
#pragma once

#include "troupe/actors/exchange/registry.hpp"

namespace troupe {

/// `send = "whole"`: one message up and one down, the gather over before the scatter begins. `send = "parameter"`: a
/// message for each parameter, as with isend and irecv: means leave while other parameters are still coming in.
/// Same bits. Source: the textbook master/worker reduction (e.g. Grama et al., Introduction to Parallel Computing,
/// §4.1).
exchange_kind star_kind();

}  // namespace troupe
