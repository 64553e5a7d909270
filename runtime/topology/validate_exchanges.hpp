// Checks the exchanges of a topology and the loop that names them.
#pragma once

#include "troupe/runtime/topology/mistakes.hpp"
#include "troupe/runtime/topology/topology.hpp"

#include <string>

namespace troupe::topology {

/// Returns whether `name` consists of at most 64 letters, digits, - and _.
bool legal_name(const std::string& name);

/// Fills in what a file leaves out of its exchanges and its loop, and adds what is wrong with them to `found`.
/// `settled`: whether the number of workers is known, so that members can be checked.
void complete_exchanges(topology& file, const places& known, mistakes& found, bool settled);

}  // namespace troupe::topology
