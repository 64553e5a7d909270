// What route = "auto" of all_reduce means: the route that is predicted to be the fastest among those that give the same
// bits.
#pragma once

#include "troupe/algorithms/exchange/registry.hpp"

#include <cstdint>

namespace troupe::all_reduce {

/// Returns the routes among which "auto" chooses for a tensor of `elements` elements, the fastest first. They give the
/// same bits: if messages are encoded, the chain is not a candidate, because it rounds partial sums; and if they are
/// encoded in blocks, there is only one candidate, because "direct" rounds answers as well. If there are too many
/// members to list all pairs of them, the chain is the only candidate, except for blocks. That depends only on their
/// number.
std::vector<candidate> automatic_routes(const surroundings& around, std::int64_t elements);

}  // namespace troupe::all_reduce
