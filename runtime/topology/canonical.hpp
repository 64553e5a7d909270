// Compares the topologies that two nodes have read.
#pragma once

#include "troupe/files/text.hpp"
#include "troupe/runtime/topology/topology.hpp"

#include <map>
#include <string>
#include <string_view>

namespace troupe::topology {

/// Returns the canonical text of a topology: one line "section.key = value" per key, with every default filled in, but
/// without paths (model.init, data.dir), listening addresses (node.listen) and the sections [security], [actors] and
/// [simulate]. All nodes of a run must have the same text.
std::string canonical(const topology& file);

/// Returns the text of canonical() with the section [simulate], which determines the times of a simulation.
std::string canonical_of_simulation(const topology& file);

/// Returns the values of a canonical text by key. The text is untrusted.
std::map<std::string, std::string> values_of(const std::string& text);

/// Words for the sources of two texts.
struct sides {
  std::string theirs{"there"}, ours{"here"};
};

/// Returns a description of how the canonical text `theirs` of another node differs from `ours`, such as "optimizer.lr
/// is 0.02 there and 0.01 here; …", with the words of `called` for the two. The description lists at most five
/// differences and then "and n more"; it is empty if the texts are equal. `theirs` is untrusted and may hold any bytes,
/// but the description is short and printable.
std::string differences(const std::string& ours, const std::string& theirs, const sides& called = {});

}  // namespace troupe::topology
