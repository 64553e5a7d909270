// Graphs and their mixing matrices: small ones computed by hand, and properties of all.
#include "troupe/algorithms/rules/mixing.hpp"

#include "tests/support/doctest.hpp"

#include "troupe/algorithms/rules/reduce.hpp"
#include "troupe/data/random/random.hpp"

#include <ATen/ops/abs.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/max.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

namespace mixing_test {

namespace {

using namespace troupe;
using lists = std::vector<std::vector<std::uint32_t>>;
using dense = std::vector<std::vector<double>>;

dense dense_of(const rules::mixing_matrix& mixing) {
  dense result(mixing.rows.size(), std::vector<double>(mixing.rows.size()));
  for (std::size_t i = 0; i < mixing.rows.size(); ++i)
    for (const auto& each : mixing.rows[i]) result[i][each.index] = each.weight;
  return result;
}

bool close(const dense& a, const dense& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t j = 0; j < a.size(); ++j)
      if (std::abs(a[i][j] - b[i][j]) > 1e-12) return false;
  return true;
}

double gap(const rules::graph& wires) {
  return rules::rates_of(rules::metropolis_weights(wires))->gap;
}

/// A graph on n nodes with random edges drawn from a seed, and a line through all nodes.
rules::graph random_graph(std::uint32_t n, std::uint64_t seed) {
  data::random_stream random{seed};
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;
  for (std::uint32_t node = 1; node < n; ++node)
    edges.emplace_back(node, static_cast<std::uint32_t>(random.below(node)));
  for (std::uint32_t i = 0; n > 1 && i < random.below(2 * n); ++i) {
    const auto a = static_cast<std::uint32_t>(random.below(n));
    edges.emplace_back(a, (a + 1 + static_cast<std::uint32_t>(random.below(n - 1))) % n);
  }
  return rules::graph_of_edges(n, edges);
}

struct labelled {
  std::string label;
  rules::graph wires;
};

std::vector<labelled> graphs_of(std::uint32_t n) {
  std::vector<labelled> result{{"ring", rules::ring_graph(n)},
                               {"line", rules::line_graph(n)},
                               {"star", rules::star_graph(n)},
                               {"complete", rules::complete_graph(n)},
                               {"exponential", rules::exponential_graph(n)}};
  for (std::uint32_t rows = 1; rows <= n; ++rows)
    if (n % rows == 0) result.push_back({"torus", rules::torus_graph(rows, n / rows)});
  for (std::uint32_t degree = 0; degree < n; ++degree)
    if (rules::has_regular_graph(n, degree))
      result.push_back({"random_regular " + std::to_string(degree), rules::random_regular_graph(n, degree, 7)});
  for (std::uint64_t seed = 0; seed < 5; ++seed) result.push_back({"random", random_graph(n, 100 * seed + n)});
  return result;
}

}  // namespace

TEST_CASE("graphs join whom their names say") {
  CHECK(rules::ring_graph(4).hears == lists{{1, 3}, {0, 2}, {1, 3}, {0, 2}});
  CHECK(rules::line_graph(4).hears == lists{{1}, {0, 2}, {1, 3}, {2}});
  CHECK(rules::star_graph(4).hears == lists{{1, 2, 3}, {0}, {0}, {0}});
  CHECK(rules::complete_graph(3).hears == lists{{1, 2}, {0, 2}, {0, 1}});
  CHECK(rules::torus_graph(3, 3).hears[4] == std::vector<std::uint32_t>{1, 3, 5, 7});
  CHECK(rules::torus_graph(3, 3).hears[0] == std::vector<std::uint32_t>{1, 2, 3, 6});
  CHECK(rules::exponential_graph(8).hears[0] == std::vector<std::uint32_t>{4, 6, 7});  // 0 − 4, 0 − 2, 0 − 1
  CHECK(rules::exponential_graph(6).hears[1] == std::vector<std::uint32_t>{0, 3, 5});
  CHECK(rules::graph_of_edges(3, {{2, 0}, {0, 2}, {0, 1}}).hears == lists{{1, 2}, {0}, {0}});
}

TEST_CASE("parallel edges count as one") {
  const lists pair{{1}, {0}};
  CHECK(rules::ring_graph(2).hears == pair);
  CHECK(rules::torus_graph(1, 2).hears == pair);
  CHECK(rules::exponential_graph(2).hears == pair);
  CHECK(rules::torus_graph(2, 2).hears == rules::graph_of_edges(4, {{0, 1}, {2, 3}, {0, 2}, {1, 3}}).hears);
  CHECK(rules::torus_graph(1, 5).hears == rules::ring_graph(5).hears);
  CHECK(rules::torus_graph(2, 3).hears[0] == std::vector<std::uint32_t>{1, 2, 3});
}

TEST_CASE("one node hears itself alone") {
  for (const auto& each : graphs_of(1)) {
    CAPTURE(each.label);
    CHECK(dense_of(rules::metropolis_weights(each.wires)) == dense{{1}});
    CHECK(dense_of(rules::uniform_weights(each.wires)) == dense{{1}});
    CHECK(gap(each.wires) == 1);
  }
}

TEST_CASE("metropolis weights worked out by hand") {
  // A star of four nodes: each edge 1/(1 + 3). A line of three nodes: each edge 1/(1 + 2).
  CHECK(close(dense_of(rules::metropolis_weights(rules::star_graph(4))),
              {{0.25, 0.25, 0.25, 0.25}, {0.25, 0.75, 0, 0}, {0.25, 0, 0.75, 0}, {0.25, 0, 0, 0.75}}));
  const double third = 1.0 / 3;
  CHECK(close(dense_of(rules::metropolis_weights(rules::line_graph(3))),
              {{2 * third, third, 0}, {third, third, third}, {0, third, 2 * third}}));
}

TEST_CASE("rows name the own weight in its place, and no weight of 0") {
  const auto row = rules::metropolis_weights(rules::ring_graph(5)).rows[2];
  REQUIRE(row.size() == 3);
  for (std::uint32_t i = 0; i < 3; ++i) CHECK(row[i].index == i + 1);
  const auto swap = rules::matrix_of({{0, 1}, {1, 0}});
  CHECK(swap.rows[0].size() == 1);
  CHECK(swap.rows[0][0].index == 1);
  CHECK(rules::graph_of(swap).hears == lists{{1}, {0}});
}

TEST_CASE("on every graph rows and columns sum to 1, and all are connected") {
  for (std::uint32_t n = 1; n <= 40; ++n) {
    for (const auto& each : graphs_of(n)) {
      CAPTURE(n);
      CAPTURE(each.label);
      const auto mixing = rules::metropolis_weights(each.wires);
      CHECK_FALSE(rules::first_uneven(mixing));
      CHECK_FALSE(rules::unconnected_members(each.wires));
      for (const auto& row : mixing.rows)
        for (const auto& entry : row) CHECK(entry.weight > 0);
      CHECK(rules::graph_of(mixing).hears == each.wires.hears);
    }
  }
}

TEST_CASE("metropolis and uniform weights have the same bits on regular graphs, and only there are uniform ones even") {
  for (std::uint32_t n = 1; n <= 40; ++n) {
    for (const auto& each : graphs_of(n)) {
      CAPTURE(n);
      CAPTURE(each.label);
      const auto uniform = rules::uniform_weights(each.wires);
      const bool regular = !rules::unequal_members(each.wires);
      CHECK(regular == !rules::first_uneven(uniform));
      if (regular) CHECK(dense_of(rules::metropolis_weights(each.wires)) == dense_of(uniform));
    }
  }
}

TEST_CASE("mixing keeps the mean") {
  models::buffer_pool pool;
  constexpr std::int64_t elements = 100;
  for (const std::uint32_t n : {1U, 2U, 3U, 8U, 15U, 40U}) {
    std::vector<at::Tensor> before;
    for (std::uint32_t node = 0; node < n; ++node) {
      data::random_stream random{data::keyed(5, data::purpose::digits, node, n)};
      before.push_back(at::empty({elements}));
      for (std::int64_t i = 0; i < elements; ++i)
        before.back().data_ptr<float>()[i] = static_cast<float>(random.between(-1, 1));
    }
    for (const auto& each : graphs_of(n)) {
      CAPTURE(n);
      CAPTURE(each.label);
      auto mean = at::zeros({elements}, at::kDouble), mixed_mean = at::zeros({elements}, at::kDouble);
      const auto mixing = rules::metropolis_weights(each.wires);
      for (std::uint32_t node = 0; node < n; ++node) {
        std::vector<rules::weighted> summands;
        for (const auto& entry : mixing.rows[node]) summands.push_back({before[entry.index], entry.weight});
        mean += before[node].to(at::kDouble) / n;
        mixed_mean += rules::mix_in_order(summands, pool).to(at::kDouble) / n;
      }
      CHECK(at::max(at::abs(mean - mixed_mean)).item<double>() < 1e-5);
    }
  }
}

TEST_CASE(
    "a random regular graph is a function of its arguments alone, simple, of its degree, and not always the same") {
  for (const auto& [n, degree] : {std::pair{10U, 3U}, {16U, 4U}, {9U, 2U}, {12U, 9U}, {100U, 2U}, {4096U, 3U}}) {
    CAPTURE(n);
    CAPTURE(degree);
    const auto one = rules::random_regular_graph(n, degree, 1);
    CHECK(one.hears == rules::random_regular_graph(n, degree, 1).hears);
    CHECK(one.hears != rules::random_regular_graph(n, degree, 2).hears);
    CHECK_FALSE(rules::unconnected_members(one));
    for (std::uint32_t node = 0; node < n; ++node) {
      CHECK(one.hears[node].size() == degree);  // without repetition, since graphs drop it
      CHECK(std::find(one.hears[node].begin(), one.hears[node].end(), node) == one.hears[node].end());
    }
  }
}

TEST_CASE("regular graphs exist where an even number of ends can connect all") {
  CHECK(rules::has_regular_graph(1, 0));
  CHECK(rules::has_regular_graph(2, 1));
  CHECK(rules::has_regular_graph(5, 4));
  CHECK(rules::has_regular_graph(6, 3));
  CHECK_FALSE(rules::has_regular_graph(5, 3));  // 15 edge ends, an odd number
  CHECK_FALSE(rules::has_regular_graph(5, 5));
  CHECK_FALSE(rules::has_regular_graph(4, 1));  // two pairs
  CHECK_FALSE(rules::has_regular_graph(2, 0));
}

TEST_CASE("what is not even or not connected is found") {
  const auto uneven = rules::first_uneven(rules::matrix_of({{0.5, 0.5}, {0.4, 0.5}}));
  REQUIRE(uneven);
  CHECK(uneven->of_row);
  CHECK(uneven->index == 1);
  CHECK(uneven->sum == doctest::Approx(0.9));
  const auto column = rules::first_uneven(rules::matrix_of({{0.5, 0.5}, {0.25, 0.75}}));
  REQUIRE(column);
  CHECK_FALSE(column->of_row);
  CHECK(column->index == 0);
  CHECK(column->sum == doctest::Approx(0.75));
  CHECK_FALSE(rules::first_uneven(rules::matrix_of({{0.5, 0.5000005}, {0.5, 0.5}})));
  CHECK(rules::first_uneven(rules::matrix_of({{0.5, 0.500002}, {0.5, 0.5}})));

  using nodes = std::pair<std::uint32_t, std::uint32_t>;
  CHECK(rules::unconnected_members(rules::graph_of_edges(4, {{0, 1}, {2, 3}})) == nodes{0, 2});
  CHECK(rules::unconnected_members({{{}, {0}}}) == nodes{1, 0});  // 1 hears 0, not the other way
  CHECK(rules::unconnected_members({{{1}, {}}}) == nodes{0, 1});
  CHECK_FALSE(rules::unconnected_members({{{1}, {2}, {0}}}));
}

TEST_CASE("spectral gaps are those of the textbook") {
  using std::numbers::pi;
  for (std::uint32_t n = 2; n <= 40; ++n) {
    CAPTURE(n);
    CHECK(gap(rules::complete_graph(n)) == doctest::Approx(1));
    if (n > 2) {
      CHECK(gap(rules::ring_graph(n)) == doctest::Approx(1 - std::abs(1 + 2 * std::cos(2 * pi / n)) / 3));
      CHECK(gap(rules::line_graph(n)) == doctest::Approx(1 - (1 + 2 * std::cos(pi / n)) / 3));
      CHECK(gap(rules::star_graph(n)) == doctest::Approx(1.0 / n));
    }
  }
  CHECK(gap(rules::torus_graph(4, 6)) == doctest::Approx(1 - (3 + 2 * std::cos(2 * pi / 6)) / 5));
  for (const std::uint32_t log : {1U, 2U, 3U, 4U, 5U})  // Ying et al. 2021: 2 / (1 + log₂ n)
    CHECK(gap(rules::exponential_graph(1U << log)) == doctest::Approx(2.0 / (1 + log)));
  CHECK(rules::rates_of(rules::matrix_of({{0, 1, 0}, {0, 0, 1}, {1, 0, 0}}))->gap == doctest::Approx(0));
  CHECK_FALSE(rules::rates_of(rules::metropolis_weights(rules::ring_graph(1025))));
}

TEST_CASE("where W is normal, one exchange contracts as fast as many do") {
  for (std::uint32_t n = 1; n <= 40; ++n) {
    for (const auto& each : graphs_of(n)) {  // symmetric, or circulant: the exponential graph
      CAPTURE(n);
      CAPTURE(each.label);
      const auto rates = rules::rates_of(rules::metropolis_weights(each.wires));
      REQUIRE(rates);
      CHECK(rates->contraction == doctest::Approx(1 - rates->gap).epsilon(1e-9));
    }
  }
  for (const std::uint32_t log : {1U, 2U, 3U, 4U, 5U}) {  // 1 − 2 / (1 + log₂ n)
    const auto rates = rules::rates_of(rules::metropolis_weights(rules::exponential_graph(1U << log)));
    CHECK(rates->contraction == doctest::Approx((log - 1.0) / (log + 1.0)));
  }
}

TEST_CASE("where W is not normal, the eigenvalues hide how slow one exchange may be") {
  // 11ᵀ/3 + uvᵀ/√3 with u = (1, −1, 0)/√2 and v = (1, 1, −2)/√6: W − 11ᵀ/3 squared is 0, so all its eigenvalues are 0,
  // and its only singular value is 1/√3.
  const double half = 0.5, third = 1.0 / 3, sixth = 1.0 / 6;
  const auto nilpotent = rules::matrix_of({{half, half, 0}, {sixth, sixth, 2 * third}, {third, third, third}});
  REQUIRE_FALSE(rules::first_uneven(nilpotent));
  const auto rates = rules::rates_of(nilpotent);
  CHECK(rates->gap == doctest::Approx(1).epsilon(1e-6));
  CHECK(rates->contraction == doctest::Approx(1 / std::numbers::sqrt3));
  // One exchange shrinks v by exactly that; after two it is gone.
  const std::vector<double> v{1, 1, -2};
  const std::vector<double> once{(v[0] + v[1]) / 2, (v[0] + v[1]) / 6 + 2 * v[2] / 3, (v[0] + v[1] + v[2]) / 3};
  CHECK(std::hypot(once[0], once[1], once[2]) == doctest::Approx(rates->contraction * std::hypot(1, 1, 2)));
  CHECK((once[0] + once[1]) / 2 == doctest::Approx(0));

  // Nodes that pass their values around a circle and mix in one place: an exchange may leave the distance unchanged.
  const auto circle = rules::rates_of(rules::matrix_of({{half, 0, half}, {half, 0, half}, {0, 1, 0}}));
  CHECK(circle->contraction == doctest::Approx(1));
  CHECK(circle->gap == doctest::Approx(half));  // trace 1/2, determinant 0: eigenvalues 1, −1/2, 0
}

TEST_CASE("a graph has a period where all its cycles have a common length") {
  CHECK(rules::period_of(rules::matrix_of({{1}})) == 1);
  CHECK(rules::period_of(rules::matrix_of({{0, 1}, {1, 0}})) == 2);
  CHECK(rules::period_of(rules::matrix_of({{0, 1, 0}, {0, 0, 1}, {1, 0, 0}})) == 3);
  const double half = 0.5;
  CHECK(rules::period_of(rules::matrix_of(
            {{0, half, 0, half}, {half, 0, half, 0}, {0, half, 0, half}, {half, 0, half, 0}})) == 2);   // even and odd
  CHECK(rules::period_of(rules::matrix_of({{0, half, half}, {half, 0, half}, {half, half, 0}})) == 1);  // 2 and 3
  CHECK(rules::period_of(rules::matrix_of({{half, half}, {half, half}})) == 1);
  for (std::uint32_t n = 1; n <= 40; ++n)
    for (const auto& each : graphs_of(n)) CHECK(rules::period_of(rules::metropolis_weights(each.wires)) == 1);
}

}  // namespace mixing_test
