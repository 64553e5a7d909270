// Randomised gossip: in each exchange the workers are paired at random, and the two of a pair average their parameters
// (Boyd et al. 2006, "Randomized gossip algorithms", section II, here in rounds of disjoint pairs).
#pragma once

#include "troupe/exchange.hpp"

#include <cstdint>
#include <vector>

/// Returns the partner of each rank in `step`. It is a function of the run's seed, so that all workers draw the same
/// pairs without a message. If the number of workers is odd, one of them is its own partner.
std::vector<std::uint32_t> pairs_at(std::uint32_t workers, std::uint64_t seed, std::uint64_t step);

troupe::exchange_kind random_pairs_kind();
