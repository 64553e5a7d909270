// The size of a model that has not been made.
#pragma once

#include "troupe/models/networks/network.hpp"

#include <cstdint>

namespace troupe::models {

/// Returns the number of elements of flat storage [P | B], padding included, of the network that make_network() would
/// make, without allocating any of them: it is made on LibTorch's device "meta", whose tensors have shapes and no
/// memory. Throws as make_network() does. Not for models that are read from a file, which determines the size.
std::int64_t flat_size(const network_kind& kind, network_shape shape);

}  // namespace troupe::models
