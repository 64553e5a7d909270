// Counting how stale the gradients were that servers have applied.
#pragma once

#include "troupe/actors/messages.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace troupe::rules {

/// Entries of staleness_tally::counts at most; the last one counts all beyond it too.
constexpr std::size_t staleness_entries = 256;

/// Counts one gradient of this staleness.
void count(staleness_tally& tally, std::uint64_t staleness);

/// Returns the tally of all gradients of all `tallies`, for instance those of the shards.
staleness_tally pooled(const std::vector<staleness_tally>& tallies);

/// Returns the tally of what was counted after `before`, which `now` goes on from. Its `most` is exact unless it falls
/// into the last entry: then it is that of `now`.
staleness_tally since(const staleness_tally& before, const staleness_tally& now);

/// Returns the mean staleness; 0 of nothing.
double mean(const staleness_tally& tally);

}  // namespace troupe::rules
