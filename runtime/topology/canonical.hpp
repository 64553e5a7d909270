// Whether two nodes read the same topology, and if not, in what they differ.
#pragma once

#include "troupe/runtime/topology/topology.hpp"

#include <string>
#include <string_view>

namespace troupe::topology {

/// Returns the canonical text of a topology, a line "section.key = value" for each key: every default filled in,
/// without paths (model.init, data.dir) and without what is bound (node.listen). Nodes of one run must have the same.
std::string canonical(const topology& file);

/// Says in words how the canonical text `theirs` of another node differs from `ours`: "optimizer.lr is 0.02 there and
/// 0.01 here; …", at most five differences, then "and n more"; empty where there is none. `theirs` comes from outside
/// and may be any bytes: what is said of it is short and printable.
std::string differences(const std::string& ours, const std::string& theirs);

/// Returns text from outside as a line of a terminal may show it: at most 60 bytes, and none that command it.
std::string printable(std::string_view text);

}  // namespace troupe::topology
