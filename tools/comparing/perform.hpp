// Makes the runs of a comparison.
#pragma once

#include "troupe/tools/comparing/child_run.hpp"
#include "troupe/tools/comparing/comparison.hpp"

#include <cstddef>
#include <filesystem>
#include <iosfwd>

namespace troupe::comparing {

struct perform_options {
  std::filesystem::path folder;  ///< The folder of the comparison.
  std::ostream* out{nullptr};    ///< Where progress is printed; null for no progress.
  bool live{false};              ///< Whether `out` is a terminal.
};

/// Makes all runs that have not finished, one after the other, until a signal is received. A run that fails does not
/// end the comparison. Returns the number of runs that failed. Throws std::runtime_error if no process can be started.
std::size_t perform(const comparison& what, child_runner& runner, const perform_options& options);

}  // namespace troupe::comparing
