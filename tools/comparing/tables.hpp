// The CSV files of a comparison: compare.csv has a row for each run, curves.csv one for each point of a curve.
// docs/comparing.md describes the columns. A value that does not apply is empty; numbers have as many digits as are
// needed to read the same bits back.
#pragma once

#include "troupe/tools/comparing/comparison.hpp"

#include <string>
#include <vector>

namespace troupe::comparing {

/// Returns compare.csv. The rows are in the order of the variants, then of the repeats.
std::string compare_csv(const comparison& what, const std::vector<made_run>& runs);

/// Returns curves.csv, in the same order, then by step.
std::string curves_csv(const comparison& what, const std::vector<made_run>& runs);

}  // namespace troupe::comparing
