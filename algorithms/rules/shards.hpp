// Distribution of the parameters over servers.
#pragma once

#include "troupe/algorithms/rules/reduce.hpp"
#include "troupe/models/storage/flat.hpp"

#include <cstdint>
#include <vector>

namespace troupe::rules {

/// Cuts the parameters into `shards` contiguous ranges of whole parameters, each including the padding after it, such
/// that the largest range is as small as possible. No range is empty, so fewer parameters give fewer ranges.
std::vector<range> parameter_shards(const models::flat_layout& layout, std::uint32_t shards);

}  // namespace troupe::rules
