// PowerSGD: the numbers of the specification, its limits, and what happens with another error.
#include "troupe/algorithms/exchange/around/power_sgd.hpp"

#include "tests/support/doctest.hpp"
#include "tests/support/exchange_pump.hpp"

#include "troupe/algorithms/exchange/around/buckets.hpp"
#include "troupe/algorithms/exchange/around/low_rank.hpp"
#include "troupe/algorithms/exchange/registry.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace power_sgd_test {

namespace {

using namespace troupe;
using namespace troupe::testing;

/// A matrix of 20 × 30, a vector of 7, a tensor of 24 × 5 × 6 and a matrix that is too small to be worth it.
models::flat_layout mixed_layout() {
  return {
      .parameters = {{"a", {20, 30}, 0, 600}, {"b", {7}, 608, 7}, {"c", {24, 5, 6}, 624, 720}, {"d", {3, 4}, 1344, 12}},
      .buffers = {},
      .parameter_end = 1360,
      .total = 1360,
      .parameter_count = 1339};
}

struct power_all_reduce {
  std::string route{"direct"};
  std::int64_t rank{2};
  std::uint32_t workers{3};
  std::uint64_t steps{1};
  std::uint64_t after{0};
  bool feedback{true};
  std::vector<range> buckets{};
  std::function<at::Tensor(std::uint32_t, std::uint64_t)> contributed{
      [](std::uint32_t rank, std::uint64_t step) { return without_padding(mixed_layout(), noise(1360, rank, step)); }};

  std::unique_ptr<member> made(rank_id rank_of_member, std::shared_ptr<const state_dict> restored) const {
    member_options own{.among = {.rank = rank_of_member, .world_size = workers},
                       .seed = 7,
                       .layout = mixed_layout(),
                       .settings = {{"route", route}},
                       .buckets = buckets,
                       .restored = std::move(restored)};
    const encoding_options codec{.how = encoding_named("powersgd"), .feedback = feedback, .after = after, .rank = rank};
    std::vector<wrapper> around{[&](const member_options& given, const member_maker& make_inner) {
      return make_power_sgd_member(given, codec, make_inner);
    }};
    if (!buckets.empty()) around.emplace_back(make_bucketed_member);
    return wrapped(find_exchange("all_reduce")->make_member, around)(own);
  }

  exchange_pump::options pumped() const {
    return {.workers = workers,
            .steps = steps,
            .elements = 1360,
            .make = [one = *this](rank_id rank_of_member) { return one.made(rank_of_member, {}); },
            .bring =
                [one = *this](std::uint32_t rank_of_member, std::uint64_t step, const at::Tensor&) {
                  return part{
                      .what = slot::gradient, .piece = {0, one.contributed(rank_of_member, step)}, .sample_count = 1};
                },
            .watch = {}};
  }

  at::Tensor mean(std::uint64_t step) const {
    auto sum = at::zeros({1360}, at::kDouble);
    for (std::uint32_t i = 0; i < workers; ++i) sum += contributed(i, step);
    return (sum / workers).to(at::kFloat);
  }

  at::Tensor answer(std::uint64_t seed = 1) const {
    exchange_pump pump{pumped()};
    pump.run(seed);
    for (std::uint32_t i = 1; i < workers; ++i) CHECK(pump.last(i).equal(pump.last(0)));
    return pump.last(0);
  }
};

double apart(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

}  // namespace

TEST_CASE("the arithmetic of PowerSGD is that of the specification") {
  const low_rank::matrix shape{.rows = 2, .columns = 2, .rank = 1};
  const std::vector<std::vector<float>> m{{4, 0, 0, 1}, {2, 0, 0, 1}};
  const std::vector<float> query{1, 1};
  std::vector<float> left(2), mean_left(2), mean_right(2), answer(4), sent(4);
  for (const auto& one : m) {
    low_rank::multiply(shape, one.data(), query.data(), left.data());
    for (int i = 0; i < 2; ++i) mean_left[i] += left[i] / 2;
  }
  low_rank::make_orthonormal(shape, mean_left.data());
  std::vector<std::vector<float>> rights(2, std::vector<float>(2));
  for (int i = 0; i < 2; ++i) {
    low_rank::multiply_transposed(shape, m[i].data(), mean_left.data(), rights[i].data());
    for (int k = 0; k < 2; ++k) mean_right[k] += rights[i][k] / 2;
  }
  low_rank::expand(shape, mean_left.data(), mean_right.data(), answer.data());
  low_rank::expand(shape, mean_left.data(), rights[0].data(), sent.data());
  const std::vector<double> expected{2.7, 0.3, 0.9, 0.1}, error{0.4, -0.3, -1.2, 0.9};
  for (int i = 0; i < 4; ++i) {
    CHECK(answer[i] == doctest::Approx(expected[i]));
    CHECK(m[0][i] - sent[i] == doctest::Approx(error[i]));
  }
}

TEST_CASE("columns become orthonormal, and those that depend on others become zero") {
  const low_rank::matrix shape{.rows = 3, .columns = 9, .rank = 3};
  std::vector<float> columns{3, 0, 4, 0, 0, 0, 1, 1, 1};
  low_rank::make_orthonormal(shape, columns.data());
  CHECK(columns[0] == doctest::Approx(0.6));
  CHECK(columns[2] == doctest::Approx(0.8));
  for (int i = 3; i < 6; ++i) CHECK(columns[i] == 0);
  double norm = 0, along = 0;
  for (int i = 0; i < 3; ++i) {
    norm += columns[6 + i] * columns[6 + i];
    along += columns[i] * columns[6 + i];
  }
  CHECK(norm == doctest::Approx(1));
  CHECK(along == doctest::Approx(0).epsilon(1e-7));
}

TEST_CASE("tensors are approximated where it saves at least half") {
  const auto rounds = low_rank::rounds_of(mixed_layout(), 2);
  REQUIRE(rounds.matrices.size() == 2);
  CHECK(rounds.matrices[1].rows == 24);
  CHECK(rounds.matrices[1].columns == 30);
  REQUIRE(rounds.rest.size() == 2);
  CHECK(rounds.lefts == 2 * (20 + 24) + 7 + 12);
  CHECK(rounds.rights == 2 * (30 + 30));
  CHECK(low_rank::rounds_of(mixed_layout(), 7).rights == 0);  // 720 ≤ 2 · 7 · 54
}

TEST_CASE("replicas stay equal on every route, whatever the order of messages") {
  for (const auto* route : {"direct", "all_gather", "chain", "ring"}) {
    CAPTURE(route);
    const power_all_reduce one{.route = route, .steps = 3};
    const auto expected = one.answer();
    for (std::uint64_t seed = 2; seed < 8; ++seed) CHECK(one.answer(seed).equal(expected));
    CHECK(expected.equal(without_padding(mixed_layout(), expected)));
  }
  CHECK(power_all_reduce{.steps = 3}.answer().equal(power_all_reduce{.route = "all_gather", .steps = 3}.answer()));
}

TEST_CASE("what is not approximated is the mean, and so is everything if the ranks are full") {
  const power_all_reduce one{};
  const auto exact = one.mean(0), found = one.answer();
  CHECK(apart(found.narrow(0, 608, 7), exact.narrow(0, 608, 7)) < 1e-6);
  CHECK(apart(found.narrow(0, 1344, 12), exact.narrow(0, 1344, 12)) < 1e-6);
  CHECK(apart(found, exact) > 0.1);
  const power_all_reduce none{.rank = 20};
  CHECK(none.answer().equal(power_all_reduce{.rank = 9}.answer()));
  CHECK(apart(none.answer(), exact) < 1e-6);
}

TEST_CASE("a matrix of the rank that is sent is exact once Q is warm") {
  power_all_reduce one{.steps = 6};
  one.contributed = [](std::uint32_t, std::uint64_t) {
    auto values = at::zeros({1360});
    values.narrow(0, 0, 600).copy_(at::mm(noise(40, 1, 1).view({20, 2}), noise(60, 1, 2).view({2, 30})).view({600}));
    return values;
  };
  CHECK(apart(one.answer(), one.contributed(0, 0)) < 1e-6);
}

TEST_CASE("what was sent and what is left over is what was contributed, and the rest stays small if workers differ") {
  power_all_reduce one{.rank = 1, .workers = 2, .steps = 50};
  one.contributed = [](std::uint32_t rank, std::uint64_t) {  // opposite deviations from a common mean
    return without_padding(mixed_layout(), noise(1360, 9, 9) + (rank == 0 ? 5 : -5) * noise(1360, 8, 8));
  };
  auto options = one.pumped();
  std::vector<member*> made;
  options.make = [&](rank_id rank) {
    auto result = one.made(rank, {});
    made.push_back(result.get());
    return result;
  };
  auto answered = at::zeros({1360}, at::kDouble);
  options.bring = [&, bring = options.bring](std::uint32_t rank, std::uint64_t step, const at::Tensor& last) {
    if (rank == 0 && last.defined()) answered += last;
    return bring(rank, step, last);
  };
  exchange_pump pump{options};
  pump.run(1);
  answered += pump.last(0);
  const auto error = [&](int i) { return made[i]->state().tensor("codec/error", 1360); };
  const auto left = (error(0) + error(1)) / 2;
  CHECK(apart(answered + left, 50 * one.mean(0)) < 1e-2);
  CHECK(error(0).norm().item<double>() < 40 * one.contributed(0, 0).norm().item<double>());
}

TEST_CASE("PowerSGD goes on from its state, bit for bit") {
  auto one = power_all_reduce{.steps = 6, .after = 2};
  const auto expected = one.answer();
  for (std::uint64_t stop = 1; stop < 6; ++stop) {
    one.steps = stop;
    exchange_pump pump{one.pumped()};
    pump.run(stop);
    pump.remake([&](rank_id rank, auto state) { return one.made(rank, std::move(state)); }, 6);
    pump.run(3);
    CHECK(pump.last(1).equal(expected));
  }
  one.steps = 2;
  CHECK(apart(one.answer(), one.mean(1)) < 1e-6);  // nothing is approximated yet
}

TEST_CASE("each bucket is approximated by itself") {
  const power_all_reduce one{.steps = 3, .buckets = {{624, 736}, {0, 624}}};
  const auto expected = one.answer();
  for (std::uint64_t seed = 2; seed < 8; ++seed) CHECK(one.answer(seed).equal(expected));
  CHECK(apart(expected.narrow(0, 1344, 12), one.mean(2).narrow(0, 1344, 12)) < 1e-6);
}

TEST_CASE("PowerSGD sends as many values as it says") {
  exchange_pump pump{power_all_reduce{.route = "all_gather", .workers = 2}.pumped()};
  pump.run(1);
  const auto rounds = low_rank::rounds_of(mixed_layout(), 2);
  CHECK(pump.bytes().at({0, 1}) == static_cast<std::uint64_t>(4 * (rounds.lefts + rounds.rights)));
}

TEST_CASE("PowerSGD goes on after a gradient of zeros") {
  power_all_reduce one{.steps = 40};
  one.contributed = [](std::uint32_t, std::uint64_t step) {
    auto values = at::zeros({1360});
    if (step > 0)
      values.narrow(0, 0, 600).copy_(at::mm(noise(40, 1, 1).view({20, 2}), noise(60, 1, 2).view({2, 30})).view({600}));
    return values;
  };
  CHECK(apart(one.answer(), one.contributed(0, 1)) < 1e-5);
}

TEST_CASE("PowerSGD recovers from values that are not finite") {
  power_all_reduce one{.steps = 4};
  one.contributed = [](std::uint32_t rank, std::uint64_t step) {
    auto values = without_padding(mixed_layout(), noise(1360, rank, step));
    if (step == 1 && rank == 1) values[5] = std::numeric_limits<float>::infinity();
    return values;
  };
  CHECK(one.answer().isfinite().all().item<bool>());
}

}  // namespace power_sgd_test
