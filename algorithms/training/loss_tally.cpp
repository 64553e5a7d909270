#include "troupe/algorithms/training/loss_tally.hpp"

#include <cmath>
#include <stdexcept>
#include <string>

namespace troupe {

void check_loss(const replica_options& options, double loss, std::uint64_t step, std::uint64_t steps) {
  if (!options.stop_on_non_finite || std::isfinite(loss)) return;
  const auto first = step + 1;
  const auto which = steps == 1
                         ? "step " + std::to_string(first)
                         : "one of the steps " + std::to_string(first) + " to " + std::to_string(first + steps - 1);
  throw std::runtime_error("the loss of worker " + std::to_string(static_cast<std::uint64_t>(options.rank)) + " in " +
                           which + " is not finite (" + (std::isnan(loss) ? "nan" : "inf") +
                           "): training diverged; reduce optimizer.lr, or set run.stop_on_non_finite = false to "
                           "continue");
}

}  // namespace troupe
