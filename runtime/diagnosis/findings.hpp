// Where the time of a run went, as shares, and in one paragraph. Pure functions.
#pragma once

#include "troupe/runtime/diagnosis/measured_run.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace troupe::diagnosis {

/// Shares of the training time, each from 0 to 1, with the sum 1.
struct shares {
  double compute{0};   ///< Gradients and updates, without waiting for samples.
  double data{0};      ///< Waiting for samples.
  double exchange{0};  ///< Waiting for the answer of an exchange.
  double other{0};     ///< Waiting for verdicts, batches of a queue, slower workers at the end of the run, or a core.
};

struct findings {
  std::vector<shares> workers;  ///< By rank.
  shares mean{};                ///< Over the workers.
  double evaluation{0};         ///< Share of the run in which an evaluation held the workers back.
  std::size_t slowest{0};       ///< Rank of the worker whose steps take longest.
  double slowness{1};           ///< How many times as long as in the median worker a step takes there.
  /// Smallest and largest share of the time that a worker waits for exchanges. In a synchronous wiring, the smallest is
  /// what the exchanges themselves take, and the rest is waiting for slower workers.
  double exchange_least{0}, exchange_most{0};
  std::optional<measured_link> busiest{};  ///< The link that was occupied most, if there are emulated ones.
};

findings findings_of(const measured_run& run);

/// Whether workers wait for a slower one: it takes noticeably longer than the median, and the others wait noticeably
/// longer for exchanges than it does.
bool waits_for_slowest(const findings& found);

/// Returns a paragraph about where the time went, for a person who has not seen the numbers.
std::string summary(const measured_run& run, const findings& found);

/// Returns 0.123 as "12.3 %".
std::string percent(double share);

}  // namespace troupe::diagnosis
