// Selects the parameters without weight decay: optimizer.no_decay and optimizer.decay_min_dims.
#pragma once

#include "troupe/algorithms/messages/messages.hpp"
#include "troupe/models/storage/flat.hpp"
#include "troupe/models/storage/tied.hpp"
#include "troupe/runtime/topology/topology.hpp"

#include <string_view>
#include <vector>

namespace troupe {

/// Returns whether the whole `name` matches `pattern`: * matches any text, ? any single character.
bool matches(std::string_view pattern, std::string_view name);

/// Returns the ranges of the parameters without weight decay, ascending, each including the padding after it. Patterns
/// also match additional (tied) names of a parameter. Throws input_error for a pattern that matches no name.
std::vector<range> undecayed_of(const topology::topology& file, const models::flat_layout& layout,
                                const std::vector<models::tied_name>& tied);

}  // namespace troupe
