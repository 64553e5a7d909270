// Values at places that all members choose at random in the same way.
#include "tests/support/doctest.hpp"
#include "tests/support/exchange_pump.hpp"

#include "troupe/algorithms/exchange/around/encoded.hpp"
#include "troupe/algorithms/exchange/around/encoder.hpp"
#include "troupe/algorithms/exchange/registry.hpp"
#include "troupe/data/random/random.hpp"
#include "troupe/data/random/subset.hpp"

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace random_k_test {

namespace {

using namespace troupe;
using namespace troupe::testing;

encoding_options random_k(double ratio, bool feedback = true) {
  return {.how = encoding_named("random_k"), .feedback = feedback, .ratio = ratio};
}

/// An all-reduce of workers, whose contributions are noise.
struct all_reduce {
  std::string route{"all_gather"};
  encoding_options codec{random_k(0.1)};
  std::uint32_t workers{4};
  std::uint64_t steps{3};
  models::flat_layout layout{three_parameters()};

  std::unique_ptr<member> made(rank_id rank, std::shared_ptr<const state_dict> restored) const {
    member_options own{.among = {.rank = rank, .world_size = workers},
                       .seed = 7,
                       .layout = layout,
                       .settings = {{"route", route}},
                       .restored = std::move(restored)};
    return make_encoded_member(own, codec, find_exchange("all_reduce")->make_member);
  }

  at::Tensor contributed(std::uint64_t rank, std::uint64_t step) const {
    return without_padding(layout, noise(layout.parameter_end, rank, step));
  }

  exchange_pump::options pumped() const {
    return {.workers = workers,
            .steps = steps,
            .elements = layout.parameter_end,
            .make = [one = *this](rank_id rank) { return one.made(rank, {}); },
            .bring =
                [one = *this](std::uint32_t rank, std::uint64_t step, const at::Tensor&) {
                  return part{.what = slot::gradient, .piece = {0, one.contributed(rank, step)}, .sample_count = 1};
                },
            .watch = {}};
  }

  at::Tensor answer(std::uint64_t seed = 1) const {
    exchange_pump pump{pumped()};
    pump.run(seed);
    for (std::uint32_t rank = 1; rank < workers; ++rank) CHECK(pump.last(rank).equal(pump.last(0)));
    return pump.last(0);
  }
};

}  // namespace

TEST_CASE("places are those of the specification, and all are equally likely") {
  const auto key = data::keyed(1, data::purpose::coordinates, 0, 3);
  CHECK(data::random_subset(4, 16, key) == std::vector<std::int64_t>{3, 7, 8, 15});
  CHECK(data::random_subset(3, 3, key) == std::vector<std::int64_t>{0, 1, 2});
  CHECK(data::random_subset(0, 3, key).empty());
  std::vector<int> times(10);
  constexpr int draws = 10000;
  for (int i = 0; i < draws; ++i)
    for (const auto place : data::random_subset(3, 10, data::keyed(2, data::purpose::coordinates, 0, i)))
      ++times[place];
  for (const auto count : times) CHECK(std::abs(count - 0.3 * draws) < 4 * std::sqrt(draws * 0.3 * 0.7));
}

TEST_CASE("random-k gives the same bits on every route that adds in rank order, whatever the order of messages") {
  const auto expected = all_reduce{}.answer();
  for (const auto* route : {"all_gather", "direct", "chain"})
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
      CAPTURE(route);
      CHECK(all_reduce{.route = route}.answer(seed).equal(expected));
    }
  CHECK((all_reduce{.route = "ring"}.answer() - expected).abs().max().item<double>() < 1e-6);
  // ⌈14.7⌉ places of 147 parameters; a mean can be 0 only by chance.
  CHECK(expected.count_nonzero().item<std::int64_t>() == 15);
  CHECK(expected.equal(without_padding(three_parameters(), expected)));
}

TEST_CASE("random-k sends four bytes for each value, and never an empty message") {
  for (const auto* route : {"all_gather", "direct", "chain", "ring"}) {
    CAPTURE(route);
    exchange_pump pump{all_reduce{.route = route, .codec = random_k(0.5), .steps = 1}.pumped()};
    pump.run(1);
    std::uint64_t bytes = 0;
    for (const auto& [ends, sent] : pump.bytes()) bytes += sent;
    const std::uint64_t each = 74 * 4, of_route = std::string{route} == "all_gather" ? 12 : 6;
    CHECK(bytes == of_route * each);
  }
  exchange_pump sparse{all_reduce{.route = "direct", .codec = random_k(1e-3), .steps = 5}.pumped()};
  sparse.run(1);
  CHECK(sparse.last(3).equal(sparse.last(0)));
}

TEST_CASE("random-k of all values is the mean, bit for bit") {
  for (const auto* route : {"all_gather", "direct", "ring"}) {
    auto exact = all_reduce{.route = route, .codec = {}};
    CHECK(all_reduce{.route = route, .codec = random_k(1)}.answer().equal(exact.answer()));
  }
}

TEST_CASE("what random-k has sent, and what is left over, is what was contributed") {
  all_reduce one{.workers = 2, .steps = 20};
  auto options = one.pumped();
  std::vector<member*> made;
  options.make = [&](rank_id rank) {
    auto result = one.made(rank, {});
    made.push_back(result.get());
    return result;
  };
  auto answered = at::zeros({176}, at::kDouble);
  options.bring = [&, bring = options.bring](std::uint32_t rank, std::uint64_t step, const at::Tensor& last) {
    if (rank == 0 && last.defined()) answered += last;
    return bring(rank, step, last);
  };
  exchange_pump pump{options};
  pump.run(5);
  answered += pump.last(0);
  auto contributed = at::zeros({176}, at::kDouble);
  for (std::uint64_t step = 0; step < 20; ++step)
    contributed += (one.contributed(0, step) + one.contributed(1, step)) / 2;
  const auto left = (made[0]->state().tensor("codec/error", 176) + made[1]->state().tensor("codec/error", 176)) / 2;
  CHECK((answered + left - contributed).abs().max().item<double>() < 1e-5);
  CHECK(left.abs().max().item<float>() > 1);
}

TEST_CASE("random-k goes on from its state, bit for bit") {
  auto one = all_reduce{.route = "direct", .steps = 9};
  const auto expected = one.answer();
  for (std::uint64_t stop = 1; stop < 9; ++stop) {
    one.steps = stop;
    exchange_pump pump{one.pumped()};
    pump.run(stop);
    pump.remake([&](rank_id rank, auto state) { return one.made(rank, std::move(state)); }, 9);
    pump.run(3);
    CHECK(pump.last(2).equal(expected));
  }
}

TEST_CASE("random-k tells of values that are not finite wherever they are, and recovers") {
  for (const auto feedback : {false, true}) {
    auto options = all_reduce{.codec = random_k(0.01, feedback), .workers = 2, .steps = 1}.pumped();
    options.bring = [](std::uint32_t rank, std::uint64_t, const at::Tensor&) {
      auto values = at::ones({176});
      if (rank == 1) values.narrow(0, 0, 40).fill_(std::numeric_limits<float>::infinity());
      return part{.what = slot::gradient, .piece = {0, values}, .sample_count = 1};
    };
    exchange_pump pump{options};
    pump.run(1);
    CHECK_FALSE(pump.last(0).isfinite().all().item<bool>());
  }
  auto options = all_reduce{.codec = random_k(0.5), .workers = 2, .steps = 3}.pumped();
  options.bring = [](std::uint32_t, std::uint64_t step, const at::Tensor&) {
    auto values = at::ones({176});
    if (step == 0) values[3] = std::numeric_limits<float>::infinity();
    return part{.what = slot::gradient, .piece = {0, values}, .sample_count = 1};
  };
  exchange_pump pump{options};
  pump.run(1);
  CHECK(pump.last(0).isfinite().all().item<bool>());
}

TEST_CASE("a part with another number of values is refused") {
  const all_reduce one{.workers = 2};
  auto made = one.made(rank_id{0}, {});
  part piece{.origin = {.sender = rank_id{1}},
             .what = slot::gradient,
             .how = encoding_named("random_k"),
             .piece = {0, at::ones({14})},
             .elements = 176,
             .total = 176,
             .sample_count = 1};
  CHECK(code_of(*made, piece) == errc::mismatch);
  piece.piece.values = at::ones({15});
  CHECK(code_of(*made, piece) == errc::failed);
}

}  // namespace random_k_test
