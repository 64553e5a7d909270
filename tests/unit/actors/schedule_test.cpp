#include "troupe/actors/rules/schedule.hpp"

#include "tests/support/doctest.hpp"

using troupe::schedule;

TEST_CASE("milestones are the ends of epochs, evaluations and the last step, never step 0") {
  const schedule when{.steps = 23, .steps_per_epoch = 10, .evaluate_every = 4};
  CHECK_FALSE(when.milestone_at(0));
  CHECK_FALSE(when.milestone_at(3));
  CHECK(when.milestone_at(4));
  CHECK(when.milestone_at(10));
  CHECK_FALSE(when.evaluated_at(10));
  CHECK(when.evaluated_at(23));
  CHECK_FALSE(when.epoch_ends_at(23));
  CHECK(when.next_milestone(8) == 10);
  CHECK(when.next_milestone(10) == 12);
  CHECK(when.next_milestone(20) == 23);
  CHECK(when.next_evaluation(0) == 4);
  CHECK(when.next_evaluation(20) == 23);
}

TEST_CASE("a run of no steps is evaluated at once") {
  const schedule when{.steps = 0, .steps_per_epoch = 10, .evaluate_every = 10};
  CHECK(when.evaluated_at(0));
  CHECK(when.next_evaluation(0) == 0);
}
