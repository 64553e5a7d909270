// The losses and classified targets of the steps since a worker's last report.
#pragma once

#include "troupe/algorithms/messages/messages.hpp"
#include "troupe/algorithms/training/replica_options.hpp"

#include <cstdint>

namespace troupe {

struct loss_tally {
  double loss_sum{0};
  std::int64_t sample_count{0}, correct{0}, classified{0};
};

/// Throws std::runtime_error if `loss`, of `steps` steps from `step` on, is not finite and the options do not allow it.
void check_loss(const replica_options& options, double loss, std::uint64_t step, std::uint64_t steps = 1);

}  // namespace troupe
