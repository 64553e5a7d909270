// Counts the staleness of the gradients that servers have applied.
#pragma once

#include "troupe/algorithms/messages/part.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace troupe::rules {

/// Maximum number of entries of staleness_tally::counts; the last one also counts all larger values.
constexpr std::size_t staleness_entries = 256;

/// Counts one gradient of this staleness.
void count(staleness_tally& tally, std::uint64_t staleness);

/// Returns the combined tally of all `tallies`, for instance those of the shards.
staleness_tally pooled(const std::vector<staleness_tally>& tallies);

/// Returns the tally of what was counted after `before`, where `now` continues `before`. Its `most` is exact unless it
/// falls into the last entry; in that case it is `now.most`.
staleness_tally since(const staleness_tally& before, const staleness_tally& now);

/// Returns the mean staleness; 0 for an empty tally.
double mean(const staleness_tally& tally);

}  // namespace troupe::rules
