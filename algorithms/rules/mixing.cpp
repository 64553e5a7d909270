#include "troupe/algorithms/rules/mixing.hpp"

#include "troupe/algorithms/support/assert.hpp"
#include "troupe/data/random/random.hpp"

#include <ATen/ops/abs.h>
#include <ATen/ops/linalg_eigvals.h>
#include <ATen/ops/linalg_eigvalsh.h>
#include <ATen/ops/linalg_svdvals.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>
#include <unordered_set>

namespace troupe::rules {

namespace {

using edge = std::pair<std::uint32_t, std::uint32_t>;

constexpr std::uint32_t members_max_of_rates = 1024;

graph without_edges(std::uint32_t n) {
  return {std::vector<std::vector<std::uint32_t>>(n)};
}

void join(graph& wires, std::uint32_t a, std::uint32_t b) {
  wires.hears[a].push_back(b);
  wires.hears[b].push_back(a);
}

/// Sorts each row and removes duplicate edges and self-loops.
graph tidied(graph wires) {
  for (std::uint32_t member = 0; member < wires.hears.size(); ++member) {
    auto& row = wires.hears[member];
    std::sort(row.begin(), row.end());
    row.erase(std::unique(row.begin(), row.end()), row.end());
    std::erase(row, member);
  }
  return wires;
}

/// Reverses every edge: row j lists the members that hear j.
graph reversed(const graph& wires) {
  auto result = without_edges(static_cast<std::uint32_t>(wires.hears.size()));
  for (std::uint32_t member = 0; member < wires.hears.size(); ++member)
    for (const auto heard : wires.hears[member]) result.hears[heard].push_back(member);
  return result;
}

/// Returns the number of hops from `from` to each member along the rows of `next`, found breadth first; n for a member
/// that is not reached.
std::vector<std::uint32_t> hops_from(const graph& next, std::uint32_t from) {
  const auto never = static_cast<std::uint32_t>(next.hears.size());
  std::vector<std::uint32_t> hops(never, never);
  std::vector<std::uint32_t> order{from};
  hops[from] = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (const auto member : next.hears[order[i]]) {
      if (hops[member] != never) continue;
      hops[member] = hops[order[i]] + 1;
      order.push_back(member);
    }
  }
  return hops;
}

/// Returns edges from each member to the next degree/2 members and, for an odd degree, to the opposite member.
std::vector<edge> circulant_edges(std::uint32_t n, std::uint32_t degree) {
  std::vector<edge> edges;
  for (std::uint32_t member = 0; member < n; ++member)
    for (std::uint32_t offset = 1; offset <= degree / 2; ++offset) edges.emplace_back(member, (member + offset) % n);
  if (degree % 2 == 1)
    for (std::uint32_t member = 0; member < n / 2; ++member) edges.emplace_back(member, member + n / 2);
  return edges;
}

/// The pairs of members that have an edge.
class adjacency {
 public:
  explicit adjacency(const std::vector<edge>& edges) {
    for (const auto& [a, b] : edges) joined_.insert(pair_of(a, b));
  }
  bool joined(std::uint32_t a, std::uint32_t b) const { return joined_.contains(pair_of(a, b)); }
  void join(std::uint32_t a, std::uint32_t b) { joined_.insert(pair_of(a, b)); }
  void part(std::uint32_t a, std::uint32_t b) { joined_.erase(pair_of(a, b)); }

 private:
  static std::uint64_t pair_of(std::uint32_t a, std::uint32_t b) {
    return std::uint64_t{std::min(a, b)} << 32 | std::max(a, b);
  }

  std::unordered_set<std::uint64_t> joined_;
};

/// Replaces edges a–b and c–d by a–d and c–b, with the second edge reversed if `turned`. Does nothing if the result
/// would not be a simple graph.
void switch_edges(edge& one, edge& other, bool turned, adjacency& pairs) {
  const auto [a, b] = one;
  const auto [c, d] = turned ? edge{other.second, other.first} : other;
  if (a == c || a == d || b == c || b == d || pairs.joined(a, d) || pairs.joined(c, b)) return;
  pairs.part(a, b);
  pairs.part(c, d);
  pairs.join(a, d);
  pairs.join(c, b);
  one = {a, d};
  other = {c, b};
}

}  // namespace

graph ring_graph(std::uint32_t n) {
  auto wires = without_edges(n);
  for (std::uint32_t member = 0; member < n; ++member) join(wires, member, (member + 1) % n);
  return tidied(std::move(wires));
}

graph line_graph(std::uint32_t n) {
  auto wires = without_edges(n);
  for (std::uint32_t member = 0; member + 1 < n; ++member) join(wires, member, member + 1);
  return tidied(std::move(wires));
}

graph torus_graph(std::uint32_t rows, std::uint32_t columns) {
  auto wires = without_edges(rows * columns);
  for (std::uint32_t row = 0; row < rows; ++row) {
    for (std::uint32_t column = 0; column < columns; ++column) {
      join(wires, row * columns + column, row * columns + (column + 1) % columns);
      join(wires, row * columns + column, (row + 1) % rows * columns + column);
    }
  }
  return tidied(std::move(wires));
}

graph star_graph(std::uint32_t n) {
  auto wires = without_edges(n);
  for (std::uint32_t member = 1; member < n; ++member) join(wires, 0, member);
  return tidied(std::move(wires));
}

graph complete_graph(std::uint32_t n) {
  auto wires = without_edges(n);
  for (std::uint32_t member = 0; member < n; ++member)
    for (std::uint32_t other = 0; other < n; ++other)
      if (other != member) wires.hears[member].push_back(other);
  return wires;
}

graph exponential_graph(std::uint32_t n) {
  auto wires = without_edges(n);
  for (std::uint32_t member = 0; member < n; ++member)
    for (std::uint32_t offset = 1; offset < n; offset *= 2) wires.hears[member].push_back((member + n - offset) % n);
  return tidied(std::move(wires));
}

bool has_regular_graph(std::uint32_t n, std::uint32_t degree) {
  return degree < n && std::uint64_t{n} * degree % 2 == 0 && degree >= std::min(n - 1, 2U);
}

graph random_regular_graph(std::uint32_t n, std::uint32_t degree, std::uint64_t seed) {
  TROUPE_ASSERT(has_regular_graph(n, degree), "no regular graph of this degree exists");
  data::random_stream random{data::keyed(seed, data::purpose::graph, n, degree)};
  auto edges = circulant_edges(n, degree);
  adjacency pairs{edges};
  for (;;) {
    for (std::size_t i = 0; i < 10 * edges.size(); ++i) {
      auto& one_edge = edges[random.below(edges.size())];
      auto& other_edge = edges[random.below(edges.size())];
      switch_edges(one_edge, other_edge, random.below(2) == 1, pairs);
    }
    auto wires = graph_of_edges(n, edges);
    if (!unconnected_members(wires)) return wires;
  }
}

graph graph_of_edges(std::uint32_t n, const std::vector<edge>& edges) {
  auto wires = without_edges(n);
  for (const auto& [a, b] : edges) {
    TROUPE_ASSERT(a < n && b < n && a != b, "an edge must connect different members");
    join(wires, a, b);
  }
  return tidied(std::move(wires));
}

std::optional<edge> unequal_members(const graph& wires) {
  const auto& rows = wires.hears;
  for (std::uint32_t member = 1; member < rows.size(); ++member)
    if (rows[member].size() != rows[0].size()) return edge{0, member};
  return std::nullopt;
}

mixing_matrix metropolis_weights(const graph& wires) {
  const auto n = wires.hears.size();
  const auto share = [&](std::uint32_t member) { return 1 / (1 + static_cast<double>(wires.hears[member].size())); };
  mixing_matrix mixing{std::vector<std::vector<neighbour>>(n)};
  for (std::uint32_t member = 0; member < n; ++member) {
    auto& row = mixing.rows[member];
    neighbour itself{member, share(member)};  // the rest of 1; on a regular graph, its share to the bit
    for (const auto other : wires.hears[member]) {
      row.push_back({other, std::min(share(member), share(other))});
      itself.weight += share(member) - row.back().weight;
    }
    const auto behind = std::find_if(row.begin(), row.end(), [&](const auto& entry) { return entry.index > member; });
    row.insert(behind, itself);
  }
  return mixing;
}

mixing_matrix uniform_weights(const graph& wires) {
  mixing_matrix mixing{std::vector<std::vector<neighbour>>(wires.hears.size())};
  for (std::uint32_t member = 0; member < wires.hears.size(); ++member) {
    auto members = wires.hears[member];
    members.insert(std::upper_bound(members.begin(), members.end(), member), member);
    for (const auto column : members) mixing.rows[member].push_back({column, 1 / static_cast<double>(members.size())});
  }
  return mixing;
}

mixing_matrix matrix_of(const std::vector<std::vector<double>>& rows) {
  mixing_matrix mixing;
  for (const auto& row : rows) {
    TROUPE_ASSERT(row.size() == rows.size(), "a mixing matrix must be square");
    auto& entries = mixing.rows.emplace_back();
    for (std::uint32_t column = 0; column < row.size(); ++column) {
      TROUPE_ASSERT(row[column] >= 0, "weights must not be negative");
      if (row[column] > 0) entries.push_back({column, row[column]});
    }
  }
  return mixing;
}

graph graph_of(const mixing_matrix& mixing) {
  auto wires = without_edges(static_cast<std::uint32_t>(mixing.rows.size()));
  for (std::uint32_t member = 0; member < mixing.rows.size(); ++member)
    for (const auto& entry : mixing.rows[member])
      if (entry.index != member) wires.hears[member].push_back(entry.index);
  return wires;
}

std::optional<uneven_sum> first_uneven(const mixing_matrix& mixing, stochastic which) {
  constexpr double tolerance = 1e-6;
  const auto n = static_cast<std::uint32_t>(mixing.rows.size());
  std::vector<double> rows(n), columns(n);
  for (std::uint32_t member = 0; member < n; ++member) {
    for (const auto& entry : mixing.rows[member]) {
      rows[member] += entry.weight;
      columns[entry.index] += entry.weight;
    }
  }
  for (const bool of_row : {true, false}) {
    if (of_row && which == stochastic::by_column) continue;
    const auto& sums = of_row ? rows : columns;
    for (std::uint32_t i = 0; i < n; ++i)
      if (!(std::abs(sums[i] - 1) <= tolerance)) return uneven_sum{of_row, i, sums[i]};
  }
  return std::nullopt;
}

std::optional<edge> unconnected_members(const graph& wires) {
  const auto n = static_cast<std::uint32_t>(wires.hears.size());
  if (n == 0) return std::nullopt;
  const auto first_never = [&](const std::vector<std::uint32_t>& hops) {
    return static_cast<std::uint32_t>(std::find(hops.begin(), hops.end(), n) - hops.begin());
  };
  if (const auto member = first_never(hops_from(reversed(wires), 0)); member < n) return edge{0, member};
  if (const auto member = first_never(hops_from(wires, 0)); member < n) return edge{member, 0};
  return std::nullopt;
}

std::uint32_t period_of(const mixing_matrix& mixing) {
  const auto never = static_cast<std::uint32_t>(mixing.rows.size());
  if (never == 1) return 1;
  const auto level = hops_from(graph_of(mixing), 0);
  std::uint32_t period = 0;
  for (std::uint32_t member = 0; member < never; ++member) {
    for (const auto& entry : mixing.rows[member]) {
      TROUPE_ASSERT(level[member] != never && level[entry.index] != never, "only a connected graph has a period");
      period = std::gcd(period, level[member] + 1 - level[entry.index]);  // breadth-first levels: never below 0
    }
  }
  return period;
}

std::optional<mixing_rates> rates_of(const mixing_matrix& mixing) {
  const auto n = static_cast<std::int64_t>(mixing.rows.size());
  if (n > members_max_of_rates) return std::nullopt;
  if (n == 1) return mixing_rates{};
  auto dense = at::zeros({n, n}, at::kDouble);
  auto entries = dense.accessor<double, 2>();
  for (std::int64_t row = 0; row < n; ++row)
    for (const auto& entry : mixing.rows[static_cast<std::size_t>(row)]) entries[row][entry.index] = entry.weight;
  const bool symmetric = dense.equal(dense.t());
  const auto values = symmetric ? at::linalg_eigvalsh(dense) : at::linalg_eigvals(dense);
  const auto ascending = std::get<0>(at::sort(at::abs(values)));
  const auto second = ascending[n - 2].item<double>();
  if (symmetric) return mixing_rates{.gap = 1 - second, .contraction = second};
  const auto singular = at::linalg_svdvals(dense.sub(1 / static_cast<double>(n)));  // descending
  return mixing_rates{.gap = 1 - second, .contraction = singular[0].item<double>()};
}

}  // namespace troupe::rules
