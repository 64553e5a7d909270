// Which parameters have no weight decay: optimizer.no_decay and optimizer.decay_min_dims.
#pragma once

#include "troupe/actors/messages.hpp"
#include "troupe/models/flat.hpp"
#include "troupe/models/tied.hpp"
#include "troupe/runtime/topology/topology.hpp"

#include <string_view>
#include <vector>

namespace troupe {

/// Returns whether all of `name` matches `pattern`: * is any text, ? any one character.
bool matches(std::string_view pattern, std::string_view name);

/// Returns where the parameters lie that have no weight decay, ascending, each with the padding after it. A further
/// name of a parameter counts as its own. Throws input_error for a pattern that no name matches.
std::vector<range> undecayed_of(const topology::topology& file, const models::flat_layout& layout,
                                const std::vector<models::tied_name>& tied);

}  // namespace troupe
