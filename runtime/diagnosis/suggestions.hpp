// What to try when a run is slow: settings of its topology file, chosen by rules from where the time went.
#pragma once

#include "troupe/runtime/diagnosis/findings.hpp"
#include "troupe/runtime/topology/topology.hpp"

#include <string>
#include <vector>

namespace troupe::diagnosis {

struct suggestion {
  std::string why;                    ///< A sentence: what these settings do, and why they may help.
  std::vector<std::string> settings;  ///< For --set, such as "data.threads=4".
  bool changes_training{true};        ///< Whether the run would compute other weights.
};

/// Returns what may help, the most promising first. The rules know a wiring by its kind only, so some of what they
/// return may not fit the rest of the file: offer a suggestion only if the topology is valid with it. `cores` is the
/// number of cores of the machine.
std::vector<suggestion> suggestions_of(const findings& found, const topology::topology& file, unsigned cores);

}  // namespace troupe::diagnosis
