// Synthetic samples of any shape, for trying a network before real ones arrive.
#pragma once

#include "troupe/models/networks/network.hpp"

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace troupe::models {

/// Returns `count` samples of this shape in the form network::forward() takes: numbers in [0, 1) from `generator`, the
/// first character, or a 1 in the first column of each dimension.
at::Tensor made_up_samples(sample_kind kind, const network_shape& shape, std::int64_t count,
                           const at::Generator& generator);

/// Returns targets for `count` samples: class 0 or the number 0; for sequences, one per position.
at::Tensor made_up_targets(bool sequences, const network_shape& shape, std::int64_t count);

}  // namespace troupe::models
