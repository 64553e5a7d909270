// How often a test repeats its cases with other seeds or at other moments.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace troupe::tests {

/// Returns `full` if the environment variable TROUPE_TESTS_FULL is set, as in the tests labelled slow, else `quick`.
inline std::uint64_t repeat(std::uint64_t quick, std::uint64_t full) {
  return std::getenv("TROUPE_TESTS_FULL") != nullptr ? full : quick;
}

/// Returns the number in the environment variable TROUPE_TESTS_FAULT_SEEDS, which the test `faults` sets, or 0.
inline std::uint64_t fault_seeds() {
  const auto* text = std::getenv("TROUPE_TESTS_FAULT_SEEDS");
  return text ? std::strtoull(text, nullptr, 10) : 0;
}

}  // namespace troupe::tests
