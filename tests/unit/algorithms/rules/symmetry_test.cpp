// Mixing matrices that look the same from each node.
#include "troupe/algorithms/rules/symmetry.hpp"

#include "tests/support/doctest.hpp"

#include <cmath>
#include <numbers>

namespace symmetry_test {

namespace {

using namespace troupe::rules;

double cosine_of(double turns) {
  return std::cos(2 * std::numbers::pi * turns);
}

}  // namespace

TEST_CASE("rings, exponential and complete graphs look the same from each node in one row, a torus in its rows") {
  CHECK(columns_of_symmetry(metropolis_weights(ring_graph(12))) == 12);
  CHECK(columns_of_symmetry(uniform_weights(exponential_graph(12))) == 12);
  CHECK(columns_of_symmetry(uniform_weights(complete_graph(5))) == 5);
  CHECK(columns_of_symmetry(metropolis_weights(torus_graph(3, 4))) == 4);
  CHECK(columns_of_symmetry(metropolis_weights(ring_graph(1))) == 1);
}

TEST_CASE("a line, a star and a random graph do not look the same from each node") {
  CHECK_FALSE(columns_of_symmetry(metropolis_weights(line_graph(12))));
  CHECK_FALSE(columns_of_symmetry(metropolis_weights(star_graph(12))));
  CHECK_FALSE(columns_of_symmetry(metropolis_weights(random_regular_graph(40, 3, 1))));
}

TEST_CASE("the rates of a symmetric matrix are its eigenvalues, however many nodes there are") {
  for (const auto& mixing : {metropolis_weights(ring_graph(12)), uniform_weights(exponential_graph(24)),
                             metropolis_weights(torus_graph(4, 6)), uniform_weights(complete_graph(5))}) {
    const auto dense = rates_of(mixing), found = std::optional{rates_by_symmetry(mixing, *columns_of_symmetry(mixing))};
    CHECK(found->gap == doctest::Approx(dense->gap));
    CHECK(found->contraction == doctest::Approx(dense->contraction));
  }
  // The ring has λ₂ = (1 + 2 cos(2π/n)) / 3. The torus has (1 + 2 cos(2π/rows) + 2) / 5, with the larger of its two
  // lengths.
  const auto ring = metropolis_weights(ring_graph(10'000));
  CHECK(rates_by_symmetry(ring, 10'000).gap == doctest::Approx(1 - (1 + 2 * cosine_of(1e-4)) / 3).epsilon(1e-6));
  const auto torus = metropolis_weights(torus_graph(100, 100));
  CHECK(rates_by_symmetry(torus, 100).gap == doctest::Approx(1 - (3 + 2 * cosine_of(0.01)) / 5).epsilon(1e-9));
}

}  // namespace symmetry_test
