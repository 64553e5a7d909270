#include "troupe/algorithms/rules/learning_rate.hpp"

#include "tests/support/doctest.hpp"

#include <cstdint>
#include <vector>

namespace learning_rate_test {

namespace {

using troupe::learning_rate;
using decay = learning_rate::decay;

}  // namespace

TEST_CASE("a learning rate of which nothing is said stays as it is") {
  const learning_rate plain;
  CHECK(plain.constant());
  CHECK(plain.at(0) == 1);
  CHECK(plain.at(1'000'000) == 1);
}

TEST_CASE("a warm-up goes linearly from its start to one") {
  const learning_rate warm{.warmup_steps = 4, .warmup_start = 0.2};
  CHECK_FALSE(warm.constant());
  CHECK(warm.at(0) == doctest::Approx(0.2));
  CHECK(warm.at(1) == doctest::Approx(0.4));
  CHECK(warm.at(3) == doctest::Approx(0.8));
  CHECK(warm.at(4) == 1);
  CHECK(warm.at(5) == 1);
  CHECK(learning_rate{.warmup_steps = 4, .warmup_start = 0}.at(0) == 0);
}

TEST_CASE("steps of decay begin with the step that they name") {
  const learning_rate stepped{.how = decay::step, .decay_at = {10, 20}, .decay_factor = 0.1};
  CHECK(stepped.at(9) == 1);
  CHECK(stepped.at(10) == doctest::Approx(0.1));
  CHECK(stepped.at(19) == doctest::Approx(0.1));
  CHECK(stepped.at(20) == doctest::Approx(0.01));
}

TEST_CASE("a decay that falls into the warm-up counts when that is over") {
  const learning_rate both{
      .warmup_steps = 4, .warmup_start = 0, .how = decay::step, .decay_at = {2, 6}, .decay_factor = 0.5};
  CHECK(both.at(2) == doctest::Approx(0.5));
  CHECK(both.at(3) == doctest::Approx(0.75));
  CHECK(both.at(4) == doctest::Approx(0.5));
  CHECK(both.at(6) == doctest::Approx(0.25));
}

TEST_CASE("a cosine comes to 0 at the end of the run and stays there") {
  const learning_rate bent{.how = decay::cosine, .steps = 100};
  CHECK(bent.at(0) == 1);
  CHECK(bent.at(25) == doctest::Approx(0.85355339));
  CHECK(bent.at(50) == doctest::Approx(0.5));
  CHECK(bent.at(99) > 0);
  CHECK(bent.at(100) == doctest::Approx(0).epsilon(1e-12));
  CHECK(bent.at(150) == doctest::Approx(0).epsilon(1e-12));
  const learning_rate after{.warmup_steps = 20, .warmup_start = 0.1, .how = decay::cosine, .steps = 100};
  CHECK(after.at(20) == 1);
  CHECK(after.at(60) == doctest::Approx(0.5));
}

TEST_CASE("a polynomial comes down with its power") {
  const learning_rate line{.how = decay::polynomial, .steps = 100};
  CHECK(line.at(0) == 1);
  CHECK(line.at(25) == doctest::Approx(0.75));
  CHECK(line.at(100) == 0);
  CHECK(line.at(150) == 0);
  const learning_rate square{.warmup_steps = 20, .how = decay::polynomial, .power = 2, .steps = 120};
  CHECK(square.at(70) == doctest::Approx(0.25));
  CHECK(square.at(110) == doctest::Approx(0.01));
}

TEST_CASE("cosine and polynomial end at their minimum and stay there") {
  for (const auto how : {decay::cosine, decay::polynomial}) {
    const learning_rate bent{.how = how, .minimum = 0.2, .steps = 100};
    CHECK(bent.at(0) == 1);
    CHECK(bent.at(50) == doctest::Approx(0.6));
    CHECK(bent.at(100) == doctest::Approx(0.2));
    CHECK(bent.at(1000) == doctest::Approx(0.2));
  }
}

namespace {

/// Returns the factors of `epochs` epochs of seven steps. Checks that all steps of an epoch have the same factor.
std::vector<double> by_epoch(learning_rate rate, std::size_t epochs) {
  constexpr std::uint64_t steps = 7;
  rate.hold = steps;
  rate.warmup_steps *= steps;
  for (auto& when : rate.decay_at) when *= steps;
  rate.steps *= steps;
  std::vector<double> factors;
  for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) {
    factors.push_back(rate.at(epoch * steps));
    for (std::uint64_t step = 1; step < steps; ++step) CHECK(rate.at(epoch * steps + step) == factors.back());
  }
  return factors;
}

void check_equal(const std::vector<double>& found, const std::vector<double>& expected) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    CHECK(found[i] == doctest::Approx(expected[i]).epsilon(1e-12));
  }
}

}  // namespace

// The expected values were printed by PyTorch 2.11: lr of an SGD with lr = 1 before each epoch, followed by
// scheduler.step().
TEST_CASE("held for an epoch, the learning rate is that of PyTorch's schedulers stepped once an epoch") {
  // LinearLR(start_factor=0.25, total_iters=5)
  check_equal(by_epoch({.warmup_steps = 5, .warmup_start = 0.25}, 8),
              {0.25, 0.4, 0.55, 0.7000000000000001, 0.85, 1, 1, 1});
  // SequentialLR of LinearLR(0.25, total_iters=2) and MultiStepLR([1, 3], gamma=0.1), milestones=[2]
  check_equal(by_epoch({.warmup_steps = 2, .warmup_start = 0.25, .how = decay::step, .decay_at = {3, 5}}, 8),
              {0.25, 0.625, 1, 0.1, 0.1, 0.010000000000000002, 0.010000000000000002, 0.010000000000000002});
  // CosineAnnealingLR(T_max=6, eta_min=0.1)
  check_equal(by_epoch({.how = decay::cosine, .minimum = 0.1, .steps = 6}, 7),
              {1, 0.9397114317029974, 0.775, 0.55, 0.3250000000000002, 0.1602885682970026, 0.1});
  // PolynomialLR(total_iters=5, power=2)
  check_equal(by_epoch({.how = decay::polynomial, .power = 2, .steps = 5}, 7),
              {1, 0.6400000000000001, 0.36, 0.16000000000000003, 0.03999999999999999, 0, 0});
  // SequentialLR of LinearLR(0.25, total_iters=5) and CosineAnnealingLR(T_max=3, eta_min=0.1), milestones=[5]
  check_equal(by_epoch({.warmup_steps = 5, .warmup_start = 0.25, .how = decay::cosine, .minimum = 0.1, .steps = 8}, 9),
              {0.25, 0.4, 0.55, 0.7000000000000001, 0.85, 1, 0.775, 0.3250000000000001, 0.1});
}

TEST_CASE("a warm-up longer than the run is cut off") {
  const learning_rate cut{.warmup_steps = 20, .warmup_start = 0, .how = decay::cosine, .steps = 10};
  CHECK(cut.at(9) == doctest::Approx(0.45));
  CHECK(cut.at(25) == 1);
}

}  // namespace learning_rate_test
