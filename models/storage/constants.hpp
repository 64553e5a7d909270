// Buffers that never change because they are not float32, such as the mask of an attention or the indices of positions.
// Flat storage, which is all float32, omits them; a PyTorch state dict contains them.
#pragma once

#include "troupe/models/networks/network.hpp"

namespace troupe::models {

/// Returns whether a buffer is one of them.
bool is_constant(const at::Tensor& buffer);

/// Returns the constants of `net` as aliases, not copies.
network::named_tensors constants_of(const network& net);

}  // namespace troupe::models
