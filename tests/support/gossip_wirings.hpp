// Settings of gossip that tests start from: graphs and matrices of weights, for members named w0, w1, …
#pragma once

#include "troupe/files/setting.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace troupe::tests {

using matrix = std::vector<std::vector<double>>;
using pairs = std::vector<std::vector<std::string>>;

/// w0, w1, …
inline std::vector<std::string> names(std::size_t n) {
  std::vector<std::string> result;
  for (std::size_t i = 0; i < n; ++i) result.push_back("w" + std::to_string(i));
  return result;
}

/// A graph with Metropolis weights.
inline setting_values named(const std::string& graph) {
  return {{"graph", graph}, {"weights", std::string{"metropolis"}}};
}

/// A directed W in which no member's own parameters have a weight.
inline const setting_values circle{{"weights", matrix{{0, 0, 1}, {1, 0, 0}, {0, 1, 0}}}};

/// Every graph, for several numbers of members, and wirings given as a matrix and as edges.
inline std::vector<std::pair<std::uint32_t, setting_values>> wirings() {
  std::vector<std::pair<std::uint32_t, setting_values>> result{{3, circle}};
  for (const auto* graph : {"ring", "line", "star", "complete", "exponential"})
    for (const std::uint32_t n : {1U, 2U, 3U, 5U, 8U}) result.emplace_back(n, named(graph));
  auto torus = named("torus");
  torus["rows"] = std::int64_t{2};
  torus["columns"] = std::int64_t{3};
  result.emplace_back(6, torus);
  auto regular = named("random_regular");
  regular["degree"] = std::int64_t{3};
  result.emplace_back(8, regular);
  result.emplace_back(3, setting_values{{"edges", pairs{{"w0", "w1"}, {"w2", "w1"}}}});
  return result;
}

}  // namespace troupe::tests
