// A permutation as a function of a key. Any thread.
#pragma once

#include <cstdint>
#include <vector>

namespace troupe::data {

/// Puts `order` into one of its permutations, all equally likely, by the random stream of `key`.
void shuffle(std::vector<std::int64_t>& order, std::uint64_t key);

}  // namespace troupe::data
