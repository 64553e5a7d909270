// The rules that hold between keys. Each key on its own has been checked by parse.cpp.
#pragma once

#include "troupe/runtime/topology/mistakes.hpp"
#include "troupe/runtime/topology/topology.hpp"

namespace troupe::topology {

/// Fills in the defaults that depend on other keys (epochs, the number of workers, the loop, what an exchange sends, a
/// worker's share of global_batch_size) and adds to `found` what does not fit together. `known` says what was given,
/// and where.
void complete(topology& file, const places& known, mistakes& found);

}  // namespace troupe::topology
