// A random subset as a function of a key. Any thread.
#pragma once

#include <cstdint>
#include <vector>

namespace troupe::data {

/// Returns `count` different numbers below `total`, ascending; all subsets of this size are equally likely. Requires 0
/// ≤ count ≤ total. Source: Bentley and Floyd, "A Sample of Brilliance", Communications of the ACM 30(9), 1987.
std::vector<std::int64_t> random_subset(std::int64_t count, std::int64_t total, std::uint64_t key);

}  // namespace troupe::data
