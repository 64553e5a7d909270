// Mixing matrices that change between exchanges.
#include "troupe/algorithms/rules/mixing_schedule.hpp"

#include "tests/support/doctest.hpp"
#include "tests/support/one_peer.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace mixing_schedule_test {

using namespace troupe;
using rules::mixing_schedule;

namespace {

/// Returns the largest lead of a member that `late` ever hears, if all others proceed as far as they can while `late`
/// has contributed to exchange k but not to k + 1. ahead_of() must not be smaller.
std::uint64_t lead_by_trial(const mixing_schedule& schedule, std::uint32_t late, std::uint64_t k) {
  std::vector<std::uint64_t> contributed(schedule.members(), k + 1);  // number of exchanges contributed to
  for (bool moves = true; moves;) {
    moves = false;
    for (std::uint32_t node = 0; node < schedule.members(); ++node) {
      if (node == late || contributed[node] > k + 100) continue;
      const auto& row = schedule.row(node, contributed[node] - 1);
      const auto has_come = [&](const auto& heard) { return contributed[heard.index] >= contributed[node]; };
      if (!std::all_of(row.begin(), row.end(), has_come)) continue;
      ++contributed[node];
      moves = true;
    }
  }
  std::uint64_t most = 1;
  for (const auto& [from, to, share] : schedule.hearings())
    if (to == late) most = std::max(most, contributed[from] - (k + 1));
  return most;
}

mixing_schedule with_weights_on(const rules::graph& wires) {
  return mixing_schedule{{rules::metropolis_weights(wires)}};
}

}  // namespace

TEST_CASE("a constant schedule is its matrix") {
  const auto ring = with_weights_on(rules::ring_graph(5));
  REQUIRE(ring.constant() != nullptr);
  CHECK(ring.row(2, 0).size() == 3);
  CHECK(&ring.row(2, 7) == &ring.row(2, 0));
  CHECK(ring.hearers(0, 3) == std::vector<std::uint32_t>{1, 4});
  CHECK(ring.hearings().size() == 10);
  CHECK(ring.ahead_of(3) == 1);
  CHECK(ring.is_symmetric());
  const auto star = with_weights_on(rules::star_graph(5));
  CHECK(star.longest_row(0) == 5);  // whether a member needs a thread for its folds depends on its own row alone
  CHECK(star.longest_row(3) == 2);
}

TEST_CASE("one peer after the other reaches the exact mean in ⌈log₂ n⌉ exchanges if n is a power of 2") {
  for (const auto& [n, exchanges] : {std::pair{2u, 1u}, {4u, 2u}, {8u, 3u}, {16u, 4u}}) {
    CAPTURE(n);
    const auto schedule = tests::one_peer_schedule(n);
    CHECK(schedule.period().size() == exchanges);
    CHECK(schedule.constant() == (exchanges == 1 ? &schedule.period().front() : nullptr));
    for (const auto& row : rules::product_of_period(schedule).rows)
      for (const auto& entry : row) CHECK(entry.weight == 1.0 / n);
    for (const auto& edge : schedule.hearings()) CHECK(edge.share == 1.0 / exchanges);
    CHECK(schedule.longest_row(0) == 2);
    CHECK_FALSE(rules::unconnected_members(schedule.graph()));
  }
}

TEST_CASE("for other n, a period leaves the distances of the source") {
  for (const auto& [n, factor] : {std::pair{3u, 0.25}, {5u, 0.202}, {6u, 0.217}, {7u, 0.125}, {12u, 0.209}}) {
    CAPTURE(n);
    const auto rates = rules::rates_of(rules::product_of_period(tests::one_peer_schedule(n)));
    CHECK(rates->contraction == doctest::Approx(factor).epsilon(0.005));
  }
}

TEST_CASE("distances count exchanges, along the arrows") {
  CHECK(with_weights_on(rules::line_graph(4)).distances_from(1, 0) == std::vector<std::uint64_t>{1, 0, 1, 2});
  // 0 is heard by 1, 2, 4; these are heard by 3, 5, 6; and 7 = 0 + 4 + 2 + 1.
  CHECK(with_weights_on(rules::exponential_graph(8)).distances_from(0, 0) ==
        std::vector<std::uint64_t>{0, 1, 1, 2, 1, 2, 2, 3});
}

TEST_CASE("no member is further ahead of a late one than it says, and some are as far") {
  const std::vector<mixing_schedule> schedules{tests::one_peer_schedule(2),
                                               tests::one_peer_schedule(5),
                                               tests::one_peer_schedule(8),
                                               mixing_schedule{{rules::uniform_weights(rules::exponential_graph(9))}},
                                               with_weights_on(rules::line_graph(6)),
                                               mixing_schedule{{rules::metropolis_weights(rules::line_graph(4)),
                                                                rules::metropolis_weights(rules::star_graph(4))}}};
  for (const auto& schedule : schedules) {
    CAPTURE(schedule.members());
    for (std::uint32_t late = 0; late < schedule.members(); ++late) {
      std::uint64_t most = 1;
      for (std::uint64_t k = 0; k < schedule.period().size(); ++k)
        most = std::max(most, lead_by_trial(schedule, late, k));
      CHECK(schedule.ahead_of(late) == most);
    }
  }
  CHECK(tests::one_peer_schedule(8).ahead_of(0) == 3);
}

TEST_CASE("columns alone may sum to 1 where that is enough") {
  const auto pushed = rules::matrix_of({{0.5, 0, 0.5}, {0.5, 0.5, 0.5}, {0, 0.5, 0}});
  CHECK_FALSE(rules::first_uneven(pushed, rules::stochastic::by_column));
  CHECK(rules::first_uneven(pushed));
  CHECK(rules::first_uneven(rules::matrix_of({{0.5, 0.5}, {0.4, 0.5}}), rules::stochastic::by_column));
}

}  // namespace mixing_schedule_test
