// Flat tensors stored in pieces.
#pragma once

#include "troupe/algorithms/messages/part.hpp"
#include "troupe/models/storage/buffer_pool.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace troupe::rules {

/// Joins `pieces`, which are contiguous and cover [0, total), into one tensor [total], fresh from `pool`. A single
/// piece that is the whole is returned without a copy.
at::Tensor side_by_side(const std::vector<span>& pieces, std::int64_t total, models::buffer_pool pool);

}  // namespace troupe::rules
