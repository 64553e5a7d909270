// How often a test repeats what it does under other seeds, or at other moments.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace troupe::tests {

/// Returns `full` if the environment variable TROUPE_TESTS_FULL is set, as in the tests labelled slow, else `quick`.
inline std::uint64_t repeat(std::uint64_t quick, std::uint64_t full) {
  return std::getenv("TROUPE_TESTS_FULL") != nullptr ? full : quick;
}

}  // namespace troupe::tests
