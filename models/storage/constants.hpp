// Buffers that never change, such as the mask of an attention or the indices of positions. Flat storage, which is all
// float32, omits them; a PyTorch state dict contains them.
#pragma once

#include "troupe/models/networks/network.hpp"

namespace troupe::models {

/// Returns the buffers of `net` that are not of a floating-point type, as aliases, not copies.
network::named_tensors constants_of(const network& net);

}  // namespace troupe::models
