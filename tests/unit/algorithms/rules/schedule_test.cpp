#include "troupe/algorithms/rules/schedule.hpp"

#include "tests/support/doctest.hpp"

#include <cstdint>
#include <vector>

namespace schedule_test {

using troupe::make_cadence;
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

TEST_CASE("an exchange is due when completed steps are divisible, at 0 only where it says so") {
  const auto usual = make_cadence(4, false);
  for (const std::uint64_t step : {0U, 1U, 3U, 5U}) CHECK_FALSE(usual.due(step));
  for (const std::uint64_t step : {4U, 8U}) CHECK(usual.due(step));
  CHECK(usual.next_due(0) == 4);
  const auto from_start = make_cadence(4, false, true);
  for (const std::uint64_t step : {0U, 4U, 8U}) CHECK(from_start.due(step));
  for (const std::uint64_t step : {1U, 3U, 5U}) CHECK_FALSE(from_start.due(step));
  CHECK(from_start.next_due(0) == 0);
  CHECK(from_start.next_due(1) == 4);
  const auto behind = make_cadence(4, true, true);  // the first step is completed by then
  CHECK(behind.next_due(0) == 4);
  CHECK(make_cadence(1, false).next_due(0) == 0);
  CHECK(make_cadence(1, true, true).next_due(0) == 1);
}

TEST_CASE("an exchange with a beginning or an end is due in between, and its interval counts from the beginning") {
  const auto steps_of = [](const troupe::cadence& when) {
    std::vector<std::uint64_t> steps;
    for (std::uint64_t step = 1; step <= 15; ++step)
      if (when.due(step - 1 + when.lead)) steps.push_back(step);
    return steps;
  };
  using steps = std::vector<std::uint64_t>;
  CHECK(steps_of(make_cadence(4, true, false, 3)) == steps{7, 11, 15});
  CHECK(steps_of(make_cadence(1, true, false, 12)) == steps{13, 14, 15});
  CHECK(steps_of(make_cadence(1, false, false, 12)) == steps{13, 14, 15});
  CHECK(steps_of(make_cadence(1, false, false, 0, 3)) == steps{1, 2, 3});
  CHECK(steps_of(make_cadence(1, true, false, 0, 3)) == steps{1, 2, 3});
  CHECK(steps_of(make_cadence(2, true, false, 3, 8)) == steps{5, 7});
  const auto until = make_cadence(2, true, false, 0, 5);
  CHECK(until.next_due(3) == 4);
  CHECK(until.next_due(5) == troupe::cadence::never);
  CHECK(until.next_due(troupe::cadence::never + 1) == troupe::cadence::never);
  CHECK_FALSE(until.due(troupe::cadence::never));
  CHECK_FALSE(until.is_always());
  CHECK(make_cadence(1, false).is_always());
  CHECK(make_cadence(1, true).is_always());
}

TEST_CASE("passes are counted through epochs whose last step has fewer") {
  const troupe::pass_count uneven{.of_step = 4, .of_last = 3, .steps_per_epoch = 3};  // 4 + 4 + 3 an epoch
  const std::uint64_t begins[] = {0, 4, 8, 11, 15, 19, 22};
  for (std::uint64_t step = 0; step < 6; ++step) {
    CHECK(uneven.before(step) == begins[step]);
    for (auto pass = begins[step]; pass < begins[step + 1]; ++pass) CHECK(uneven.step_of(pass) == step);
  }
  CHECK(troupe::pass_count{}.before(7) == 7);
  CHECK(troupe::pass_count{}.step_of(7) == 7);
  const troupe::pass_count even{.of_step = 4, .of_last = 4, .steps_per_epoch = 9};
  CHECK(even.before(23) == 92);
  CHECK(even.step_of(95) == 23);
}

TEST_CASE("checkpoints are due at multiples of their interval, not at the end, and are no milestones") {
  const schedule when{.steps = 20, .steps_per_epoch = 10, .evaluate_every = 10, .checkpoint_every = 5};
  CHECK_FALSE(when.checkpoint_at(0));
  CHECK(when.checkpoint_at(5));
  CHECK_FALSE(when.checkpoint_at(6));
  CHECK_FALSE(when.checkpoint_at(20));
  CHECK_FALSE(when.milestone_at(5));
  CHECK(when.next_milestone(0) == 10);
  CHECK(when.next_checkpoint(0) == 5);
  CHECK(when.next_checkpoint(5) == 10);
  CHECK(when.next_checkpoint(15) == ~std::uint64_t{0});
  const schedule never{.steps = 20, .steps_per_epoch = 10, .evaluate_every = 10};
  CHECK_FALSE(never.checkpoint_at(10));
  CHECK(never.next_checkpoint(0) == ~std::uint64_t{0});
}

}  // namespace schedule_test
