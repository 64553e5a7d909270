// Checks the rules that involve several keys. parse.cpp has already checked each key by itself.
#pragma once

#include "troupe/runtime/topology/constraints.hpp"
#include "troupe/runtime/topology/mistakes.hpp"
#include "troupe/runtime/topology/topology.hpp"

namespace troupe::topology {

/// Returns a function that adds violations to `found` at the positions of their keys. Both arguments must outlive it.
refusal refusal_at(const places& known, mistakes& found);

/// Fills in the defaults that depend on other keys (epochs, the number of workers, the loop, what an exchange sends, a
/// worker's share of global_batch_size) and adds to `found` the combinations that are not allowed. `known` holds the
/// keys that were set and their positions.
void complete(topology& file, const places& known, mistakes& found);

}  // namespace troupe::topology
