// Checks the rules that involve several keys of [optimizer], or its keys and those of other sections.
#pragma once

#include "troupe/runtime/topology/mistakes.hpp"
#include "troupe/runtime/topology/topology.hpp"

namespace troupe::topology {

/// Adds to `found` the combinations that are not allowed. `known` holds the keys that were set and their positions.
void check_optimizer(const topology& file, const places& known, mistakes& found);

}  // namespace troupe::topology
