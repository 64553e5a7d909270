// What route = "auto" of all_reduce stands for: the route that is predicted to be the fastest, among those with the
// same bits.
#pragma once

#include "troupe/algorithms/exchange/registry.hpp"

#include <cstdint>

namespace troupe::all_reduce {

/// Returns the routes among which "auto" chooses for a tensor of so many elements, the fastest first. They have the
/// same bits: if messages are encoded, a chain is no candidate, because it rounds partial sums. Among so many members
/// that not all pairs of them can be listed, it is the only one (which depends on nothing but their number).
std::vector<candidate> automatic_routes(const surroundings& around, std::int64_t elements);

}  // namespace troupe::all_reduce
