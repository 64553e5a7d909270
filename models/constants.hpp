// Buffers that never change, such as the mask of an attention or the indices of positions. Flat storage, which is all
// float32, leaves them out; a state dict of PyTorch has them.
#pragma once

#include "troupe/models/network.hpp"

namespace troupe::models {

/// Returns the buffers of `net` that are not of a floating point type; aliases, not copies.
network::named_tensors constants_of(const network& net);

}  // namespace troupe::models
