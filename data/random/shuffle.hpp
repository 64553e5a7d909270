// A permutation as a function of a key. Any thread.
#pragma once

#include <cstdint>
#include <vector>

namespace troupe::data {

/// Permutes `order` with the random stream of `key`; all permutations are equally likely.
void shuffle(std::vector<std::int64_t>& order, std::uint64_t key);

}  // namespace troupe::data
