// The exchange of examples/random_pairs, driven by hand.
#include "examples/random_pairs/pairs.hpp"

#include "tests/support/exchange_pump.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>

namespace pairs_test {

namespace {

using namespace troupe;

constexpr std::uint64_t run_seed = 7;

std::unique_ptr<member> make(std::uint32_t n, rank_id rank) {
  return random_pairs_kind().make_member(
      {.among = {.rank = rank, .world_size = n}, .seed = run_seed, .layout = testing::one_parameter()});
}

/// Computes by definition the values of all workers after `steps` exchanges, if worker i starts at i.
std::vector<double> textbook(std::uint32_t n, std::uint64_t steps) {
  std::vector<double> values(n);
  for (std::uint32_t i = 0; i < n; ++i) values[i] = i;
  for (std::uint64_t step = 0; step < steps; ++step) {
    const auto before = values;
    const auto partner = pairs_at(n, run_seed, step);
    for (std::uint32_t i = 0; i < n; ++i) values[i] = (before[i] + before[partner[i]]) / 2;
  }
  return values;
}

}  // namespace

TEST_CASE("pairs are disjoint, a function of seed and step, and one worker of an odd number is alone") {
  for (std::uint32_t n = 1; n <= 7; ++n)
    for (std::uint64_t step = 0; step < 50; ++step) {
      const auto partner = pairs_at(n, 1, step);
      CHECK(partner == pairs_at(n, 1, step));
      std::uint32_t alone = 0;
      for (std::uint32_t i = 0; i < n; ++i) {
        CHECK(partner[partner[i]] == i);
        alone += partner[i] == i ? 1 : 0;
      }
      CHECK(alone == n % 2);
    }
  CHECK(pairs_at(6, 1, 0) != pairs_at(6, 2, 0));
}

TEST_CASE("the two of a pair average their parameters, in any order of messages") {
  constexpr std::uint64_t steps = 6;
  for (const std::uint32_t n : {1u, 2u, 5u, 6u}) {
    const auto expected = textbook(n, steps);
    for (std::uint64_t order = 0; order < 20; ++order) {
      testing::exchange_pump pump{{.workers = n,
                                   .steps = steps,
                                   .elements = 16,
                                   .make = [n](rank_id rank) { return make(n, rank); },
                                   .bring =
                                       [](std::uint32_t rank, std::uint64_t, const at::Tensor& last) {
                                         const auto own =
                                             last.defined() ? last : at::full({16}, static_cast<float>(rank));
                                         return part{.what = slot::parameters, .piece = {0, own}, .sample_count = 1};
                                       }}};
      pump.run(order);
      CHECK_FALSE(pump.in_flight());
      for (std::uint32_t rank = 0; rank < n; ++rank) {
        CHECK(pump.completed(rank) == steps);
        CHECK(testing::all_are(pump.last(rank), static_cast<float>(expected[rank])));
      }
    }
  }
}

TEST_CASE("only the partner of the step may send, and once") {
  constexpr std::uint32_t n = 4;
  const auto partner = pairs_at(n, run_seed, 0)[0];
  const auto from = [](std::uint32_t rank) {
    return part{.origin = {.sender = rank_id{rank}},
                .what = slot::parameters,
                .piece = {0, at::ones({16})},
                .total = 16,
                .sample_count = 1};
  };
  const auto one = make(n, rank_id{0});
  for (std::uint32_t rank = 1; rank < n; ++rank)
    if (rank != partner) CHECK(testing::code_of(*one, from(rank)) == errc::mismatch);
  CHECK(testing::code_of(*one, from(partner)) == errc::failed);  // already taken
  CHECK(testing::code_of(*one, from(partner)) == errc::stale);
}

}  // namespace pairs_test
