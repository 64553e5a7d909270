// The figures of a comparison: accuracy and loss against time, bytes and samples, what reaching the target took, and
// what the accuracy cost.
#pragma once

#include "troupe/tools/comparing/statistics.hpp"
#include "troupe/tools/pages/figure.hpp"

#include <string>
#include <vector>

namespace troupe::comparing {

/// A figure in two forms, and its values. The logarithmic form of an accuracy shows the share of errors, because that
/// is what a logarithm can show.
struct figure_pair {
  pages::figure linear{}, logarithmic{};
  std::string csv{};  ///< The values of the figure, with a header.
  /// Whether the variants differ by so large a factor on the horizontal axis that it is logarithmic unless the reader
  /// chooses otherwise.
  bool is_wide{false};
};

/// Returns the figure with these axes.
pages::figure form_of(const figure_pair& of, bool logarithmic_x, bool logarithmic_y);

/// Returns the curves, in this order: accuracy against time, bytes and samples, then loss against the same.
std::vector<figure_pair> curve_figures(const comparison& what, const std::vector<summary>& of);

/// Returns the figures of what the target took, in time and in bytes; none without a target.
std::vector<figure_pair> target_figures(const comparison& what, const std::vector<summary>& of);

/// Returns the figures of final accuracy against cost, in time and in bytes.
std::vector<figure_pair> cost_figures(const comparison& what, const std::vector<summary>& of);

}  // namespace troupe::comparing
