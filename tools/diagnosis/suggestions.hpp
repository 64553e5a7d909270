// What to try when a run is slow: settings of its topology file, each with the time that a simulation of the run
// predicts for it.
#pragma once

#include "troupe/runtime/topology/topology.hpp"
#include "troupe/tools/diagnosis/what_if.hpp"

#include <string>
#include <vector>

namespace troupe::diagnosis {

struct suggestion {
  std::string why;                    ///< A sentence: what these settings do.
  std::vector<std::string> settings;  ///< For --set, such as "data.threads=4".
  bool changes_training{true};        ///< Whether the run would compute other weights.
  double seconds{0};                  ///< Predicted time for as many samples as in the run.
};

/// Returns what could make a run with this topology faster, without a prediction. It follows from the kinds of its
/// exchanges only, so some of it may not fit the rest of the file. `cores` is the number of cores of the machine.
std::vector<suggestion> candidates(const topology::topology& file, unsigned cores);

/// Returns those of candidates() that are predicted to make the run noticeably faster than `seconds`: first those that
/// leave the weights the same, then the others, the fastest of each first.
std::vector<suggestion> suggestions_of(const what_if& run, double seconds, unsigned cores);

}  // namespace troupe::diagnosis
