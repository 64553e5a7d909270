// The numbers of the quadratic synchronisation rule, and cadences of unequal intervals.
#include "troupe/algorithms/rules/growing_rounds.hpp"

#include "tests/support/doctest.hpp"

#include "troupe/algorithms/rules/schedule.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace growing_rounds_test {

using namespace troupe;
using steps = std::vector<std::uint64_t>;

namespace {

learning_rate cosine(std::uint64_t length, std::uint64_t warm_up = 0) {
  return {.warmup_steps = warm_up, .warmup_start = 0.1, .how = learning_rate::decay::cosine, .steps = length};
}

cadence of(const steps& stamps) {
  return {.every = 2, .first = 2, .lead = 1, .stamps = std::make_shared<const steps>(stamps)};
}

}  // namespace

TEST_CASE("rounds grow as the learning rate falls, as the specification says") {
  CHECK(rules::growing_rounds({2, 0.2}, 0.1, cosine(100)) == steps{4, 8, 12, 16, 20, 24, 29, 35, 42, 52, 70, 100});
  CHECK(rules::growing_rounds({2, 1e-9}, 0.1, cosine(7)) == steps{2, 4, 6, 7});
  CHECK(rules::growing_rounds({2, 0.2}, 0.1, cosine(100), 52) == steps{70, 100});
  CHECK(rules::growing_rounds({2, 0.2}, 0.1, cosine(0)).empty());
}

TEST_CASE("during a warm-up, rounds are as long as at its end") {
  const auto ends = rules::growing_rounds({1, 0.2}, 0.1, cosine(100, 20));
  CHECK(steps(ends.begin(), ends.begin() + 5) == steps{4, 8, 12, 16, 20});
}

TEST_CASE("a cadence of stamps is due at those") {
  const auto due = of({4, 8, 20});
  CHECK_FALSE(due.is_always());
  for (std::uint64_t step = 0; step <= 21; ++step) CHECK(due.due(step) == (step == 4 || step == 8 || step == 20));
  CHECK(due.next_due(0) == 4);
  CHECK(due.next_due(8) == 8);
  CHECK(due.next_due(9) == 20);
  CHECK(due.next_due(21) == cadence::never);
  CHECK(due.index_of(4) == 0);
  CHECK(due.index_of(20) == 2);
  CHECK(due.longest_interval() == 12);
  CHECK(due.per_step(20) == doctest::Approx(3.0 / 20));
  CHECK(due.per_step(10) == doctest::Approx(2.0 / 10));
  CHECK(of({}).next_due(0) == cadence::never);
}

TEST_CASE("a cadence knows how often it is due per step") {
  CHECK(make_cadence(1, false).per_step(10) == 1);
  CHECK(make_cadence(4, true).per_step(10) == 0.25);
  CHECK(make_cadence(2, true, false, 4).per_step(8) == doctest::Approx(0.25 + 1.0 / 16).epsilon(0.3));
  CHECK(make_cadence(1, false, false, 0, 5).per_step(10) == doctest::Approx(0.5));
}

}  // namespace growing_rounds_test
