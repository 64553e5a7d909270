#include "troupe/actors/rules/learning_rate.hpp"

#include "tests/support/doctest.hpp"

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

TEST_CASE("a warm-up longer than the run is cut off") {
  const learning_rate cut{.warmup_steps = 20, .warmup_start = 0, .how = decay::cosine, .steps = 10};
  CHECK(cut.at(9) == doctest::Approx(0.45));
  CHECK(cut.at(25) == 1);
}
