// The exchange of examples/new_exchange, driven by hand. docs/composing.md uses it to show how to test a new exchange.
#include "examples/new_exchange/median.hpp"

#include "tests/support/exchange_pump.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>

#include <limits>

namespace median_test {

namespace {

using namespace troupe;

/// The side of one of `n` members, for gradients of 16 elements.
std::unique_ptr<member> make(std::uint32_t n, rank_id rank) {
  return median_kind().make_member({.among = {.rank = rank, .world_size = n}, .layout = testing::one_parameter()});
}

/// Members that contribute the same gradient of equal elements in each of three steps.
testing::exchange_pump bringing(const std::vector<float>& values) {
  const auto n = static_cast<std::uint32_t>(values.size());
  return testing::exchange_pump{{.workers = n,
                                 .steps = 3,
                                 .elements = 16,
                                 .make = [n](rank_id rank) { return make(n, rank); },
                                 .bring =
                                     [values](std::uint32_t rank, std::uint64_t, const at::Tensor&) {
                                       return part{.piece = {0, at::full({16}, values[rank])}, .sample_count = 1};
                                     }}};
}

/// What rank 1 sends to the master at step 0.
part sent_by_one() {
  return {.origin = {.sender = rank_id{1}}, .piece = {0, at::ones({16})}, .total = 16, .sample_count = 1};
}

struct ignored final : outbox {
  void send(rank_id, part) override {}
  void answer(const part&) override {}
};

}  // namespace

TEST_CASE("all get the median, in any order of messages, and a liar does not move it far") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<std::pair<std::vector<float>, float>> cases{
      {{5}, 5}, {{3, 1}, 2}, {{4, 1, 3}, 3}, {{4, 1, 3, 2}, 2.5}, {{4, 1, 3, 1e30f}, 3.5}, {{nan, 1, 3, 2}, 2.5}};
  for (const auto& [values, expected] : cases) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      auto pump = bringing(values);
      pump.run(seed);
      CHECK_FALSE(pump.in_flight());
      for (std::uint32_t rank = 0; rank < values.size(); ++rank) {
        CHECK(pump.completed(rank) == 3);
        CHECK(testing::all_are(pump.last(rank), expected));
      }
    }
  }
}

TEST_CASE("each coordinate of a median has its own") {
  auto pump = testing::exchange_pump{{.workers = 3,
                                      .elements = 16,
                                      .make = [](rank_id rank) { return make(3, rank); },
                                      .bring =
                                          [](std::uint32_t rank, std::uint64_t, const at::Tensor&) {
                                            return part{.piece = {0, at::arange(16.0f).roll(rank)}, .sample_count = 1};
                                          }}};
  pump.run(1);
  // The median of i, i−1 and i−2 is i−1, except at both ends, where the sequence wraps around.
  auto expected = at::arange(16.0f) - 1;
  expected[0] = 14;
  expected[1] = 1;
  CHECK(pump.last(2).equal(expected));
}

TEST_CASE("a median says whom it waits for") {
  auto pump = bringing({1, 2, 3});
  pump.contribute(0);
  pump.contribute(2);
  pump.deliver(2, 0);
  CHECK((pump.at(0).waiting_for(0) == std::vector{rank_id{1}}));
  CHECK((pump.at(2).waiting_for(0) == std::vector{rank_id{0}}));
}

TEST_CASE("a median sends as many messages and bytes as its plan says") {
  auto pump = bringing({1, 2, 3});
  pump.run(1);
  for (const auto& edge : median_kind().edges(3, testing::one_parameter(), {})) {
    CHECK(pump.messages().at({edge.from, edge.to}) == 3 * edge.messages);
    CHECK(pump.bytes().at({edge.from, edge.to}) == 3 * edge.bytes);
  }
  CHECK(pump.messages().size() == 4);
}

TEST_CASE("a median refuses what does not fit, came twice, or came to the wrong place") {
  ignored out;
  const auto master = make(3, rank_id{0}), other = make(3, rank_id{2});
  auto piece = sent_by_one();
  SUBCASE("twice") {
    master->receive(piece, out);
    CHECK_THROWS_AS(master->receive(piece, out), exchange_error);
  }
  SUBCASE("another shape") {
    piece.piece.values = at::ones({8});
    CHECK_THROWS_AS(master->receive(piece, out), exchange_error);
  }
  SUBCASE("an answer to the master") {
    piece.at = stage::result;
    CHECK_THROWS_AS(master->receive(piece, out), exchange_error);
  }
  SUBCASE("a contribution to another") {
    CHECK_THROWS_AS(other->receive(piece, out), exchange_error);
  }
  SUBCASE("an answer by another") {
    piece.at = stage::result;
    CHECK_THROWS_AS(other->receive(piece, out), exchange_error);
  }
  SUBCASE("as the master's own") {
    piece.origin.sender = rank_id{0};
    CHECK_THROWS_AS(master->receive(piece, out), exchange_error);
  }
}

}  // namespace median_test
