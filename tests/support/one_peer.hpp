// A second graph that changes: in exchange k, member i hears i − 2^(k mod ⌈log₂ n⌉) mod n. Source: Ying et al. 2021,
// "Exponential graph is provably efficient for decentralized deep training", equation 7.
#pragma once

#include "troupe/graph.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace troupe::tests {

inline rules::mixing_schedule one_peer_schedule(std::uint32_t n) {
  std::vector<rules::mixing_matrix> period;
  for (std::uint32_t distance = 1; distance < n || period.empty(); distance *= 2) {
    auto& mixing = period.emplace_back();
    for (std::uint32_t i = 0; i < n; ++i) {
      const auto heard = (i + n - distance % n) % n;
      mixing.rows.push_back({{std::min(i, heard), 0.5}, {std::max(i, heard), 0.5}});
      if (heard == i) mixing.rows.back() = {{i, 1}};
    }
  }
  return rules::mixing_schedule{std::move(period)};
}

inline graph_with_weights one_peer() {
  return {.name = "one_peer", .explanation = "One peer after the other.", .make = one_peer_schedule};
}

}  // namespace troupe::tests
