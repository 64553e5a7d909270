// Medians and ranges over the repeats of a variant. The range is that of all repeats: with the few repeats of a
// comparison, quantiles and standard errors would suggest a precision that the figures do not have.
#pragma once

#include "troupe/tools/comparing/comparison.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace troupe::comparing {

/// A median with the smallest and the largest value.
struct spread {
  double median{0}, low{0}, high{0};
  std::size_t count{0};
};

/// Returns the spread of the values that are set, or nothing if none is. The median of an even number of values is the
/// mean of the two in the middle.
std::optional<spread> spread_of(const std::vector<std::optional<double>>& values);

/// What it took to reach the target accuracy. A run that did not reach it counts as infinitely long, so the median is
/// infinite if half of the runs or more did not, and `high` if any did not.
struct to_target {
  spread taken{};
  std::size_t reached{0};
  bool is_finite() const { return taken.median < std::numeric_limits<double>::infinity(); }
};

/// Returns the spread of what the runs took, or nothing if there are no runs. An empty value means that a run did not
/// reach the target.
std::optional<to_target> to_target_of(const std::vector<std::optional<double>>& taken);

/// Returns the probability with which the range of `count` independent repeats contains the median of the distribution
/// from which they are drawn: 1 - 2^(1 - count), because all of them lie on one side with probability 2 * 2^-count.
double coverage_of_range(std::size_t count);

/// The repeats of a variant at one step.
struct curve_point {
  std::uint64_t step{0};
  double seconds{0}, bytes{0};       ///< Medians.
  std::optional<double> samples{};   ///< Median.
  std::optional<spread> accuracy{};  ///< Validation accuracy, from 0 to 1.
  std::optional<spread> loss{};      ///< Validation loss.
};

/// What is known about a variant after its runs. Only runs that have finished count.
struct summary {
  std::size_t runs{0}, finished{0};
  std::optional<spread> seconds{}, samples{}, updates{}, bytes{}, final_accuracy{}, best_accuracy{}, staleness{},
      idle_share{};
  std::optional<to_target> seconds_to_target{}, bytes_to_target{};
  std::vector<curve_point> curve{};  ///< By step. A step that fewer than half of the finished runs have is left out.
};

/// Returns the summary of each variant. With a target, seconds_to_target and bytes_to_target are set.
std::vector<summary> summaries_of(const comparison& what, const std::vector<made_run>& runs);

}  // namespace troupe::comparing
