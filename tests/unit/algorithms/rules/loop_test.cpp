#include "troupe/algorithms/rules/loop.hpp"

#include "tests/support/doctest.hpp"

namespace loop_test {

namespace {

using namespace troupe;
using namespace troupe::rules;

constexpr auto gradient = verb::gradient;
constexpr auto apply = verb::apply;

/// An exchange at every step, before `apply` unless `behind_apply`.
exchange_word exchange_of(slot what, std::uint64_t every = 1, bool behind_apply = false) {
  exchange_word made;
  made.place = 1;
  made.sends = made.answers = what;
  made.when = make_cadence(every, behind_apply);
  return made;
}

/// Reports of a run of 100 steps, every 10 steps.
report_times every_ten() {
  return {.when = {.steps = 100, .steps_per_epoch = 10, .evaluate_every = 10}, .last = 100, .assigned = {}};
}

const std::vector<loop_word> local{gradient, apply};
const std::vector<loop_word> averaged_gradients{gradient, exchange_of(slot::gradient), apply};
const std::vector<loop_word> mixed_parameters{gradient, exchange_of(slot::parameters), apply};
const std::vector<loop_word> averaged_afterwards{gradient, apply, exchange_of(slot::parameters, 4, true)};

}  // namespace

TEST_CASE("a word is a due exchange only at the stamps of its cadence") {
  const loop_word word = exchange_of(slot::gradient, 3);
  CHECK(due_exchange(word, 0) == nullptr);
  CHECK(due_exchange(word, 2) == nullptr);
  REQUIRE(due_exchange(word, 3) != nullptr);
  CHECK(due_exchange(word, 3)->place == 1);
  CHECK(due_exchange(loop_word{gradient}, 3) == nullptr);
}

TEST_CASE("an exchange of parameters is concurrent with the gradient before it, one of gradients is not") {
  CHECK(concurrent_exchange(mixed_parameters, 0, 0) == 1);
  CHECK(concurrent_exchange(mixed_parameters, 2, 0) == 3);  // apply changes x
  CHECK(concurrent_exchange(averaged_gradients, 0, 0) == 3);
  CHECK(concurrent_exchange(averaged_afterwards, 0, 4) == 3);  // apply comes between them

  auto buffers = exchange_of(slot::parameters);
  buffers.gradient_first = true;
  CHECK(concurrent_exchange({gradient, buffers, apply}, 0, 0) == 3);

  const std::vector<loop_word> two{gradient, exchange_of(slot::gradient, 2), exchange_of(slot::parameters), apply};
  CHECK(concurrent_exchange(two, 0, 1) == 2);  // the first exchange is not due
  CHECK(concurrent_exchange(two, 0, 2) == 4);  // the first exchange is due, and comes first
}

TEST_CASE("the next exchange is counted in completed steps, wherever it stands in the loop") {
  CHECK(next_exchange(local, 7) == ~std::uint64_t{0});
  CHECK(next_exchange(averaged_gradients, 7) == 7);
  const std::vector<loop_word> before{gradient, exchange_of(slot::gradient, 4), apply};
  CHECK(next_exchange(before, 0) == 4);
  CHECK(next_exchange(before, 4) == 4);
  CHECK(next_exchange(before, 5) == 8);
  // After `apply`, the stamp of the fourth step is 4, although 3 steps are completed.
  CHECK(next_exchange(averaged_afterwards, 0) == 3);
  CHECK(next_exchange(averaged_afterwards, 3) == 3);
  CHECK(next_exchange(averaged_afterwards, 4) == 7);
}

TEST_CASE("one request covers whole steps up to a milestone, the grant, an exchange or its own limit") {
  const auto steps_from = [](const std::vector<loop_word>& loop, std::uint64_t completed, loop_limits limits) {
    const auto work = whole_steps(loop, {.completed = completed, .stamp = completed}, limits, every_ten());
    return work ? work->steps : 0;
  };
  CHECK(steps_from(local, 0, {.granted = 50, .steps_at_once = 16}) == 10);
  CHECK(steps_from(local, 3, {.granted = 50, .steps_at_once = 16}) == 7);
  CHECK(steps_from(local, 3, {.granted = 6, .steps_at_once = 16}) == 3);
  CHECK(steps_from(local, 3, {.granted = 50, .steps_at_once = 2}) == 2);
  CHECK(steps_from(averaged_afterwards, 0, {.granted = 50, .steps_at_once = 16}) == 3);
  CHECK(steps_from(averaged_afterwards, 3, {.granted = 50, .steps_at_once = 16}) == 0);
  CHECK(steps_from(averaged_gradients, 0, {.granted = 50, .steps_at_once = 16}) == 0);

  const auto work = whole_steps(averaged_afterwards, {}, {.granted = 50, .steps_at_once = 16}, every_ten());
  REQUIRE(work);
  CHECK((work->verbs == std::vector{gradient, apply}));
  CHECK(work->times == 3);
  CHECK(work->begins == 2);  // the first one was started earlier
  CHECK(work->word_after == 0);
  CHECK_FALSE(whole_steps(local, {.word = 1}, {.granted = 50, .steps_at_once = 16}, every_ten()));
}

TEST_CASE("apply and the next gradient share a request, but not across a milestone or the end of the grant") {
  const loop_limits limits{.granted = 50, .steps_at_once = 16};
  const auto first = next_work(averaged_gradients, {}, limits, every_ten());
  CHECK((first.verbs == std::vector{gradient}));
  CHECK(first.word_after == 1);
  CHECK(first.steps == 0);

  const auto usual = next_work(averaged_gradients, {.word = 2, .completed = 4, .stamp = 4}, limits, every_ten());
  CHECK((usual.verbs == std::vector{apply, gradient}));
  CHECK(usual.word_after == 1);
  CHECK(usual.steps == 1);
  CHECK(usual.begins == 1);

  const loop_position last_of_ten{.word = 2, .completed = 9, .stamp = 9};
  const auto to_milestone = next_work(averaged_gradients, last_of_ten, limits, every_ten());
  CHECK((to_milestone.verbs == std::vector{apply}));
  CHECK(to_milestone.word_after == 0);
  CHECK(to_milestone.begins == 0);

  const auto to_grant =
      next_work(averaged_gradients, {.word = 2, .completed = 4, .stamp = 4}, {.granted = 5}, every_ten());
  CHECK((to_grant.verbs == std::vector{apply}));
  CHECK(to_grant.steps == 1);
}

TEST_CASE("a request ends before a gradient with which an exchange of parameters is concurrent") {
  const loop_limits limits{.granted = 50, .steps_at_once = 16};
  const auto after = next_work(mixed_parameters, {.word = 2, .completed = 4, .stamp = 4}, limits, every_ten());
  CHECK((after.verbs == std::vector{apply}));  // x has to leave before the next gradient
  CHECK(after.word_after == 0);
  CHECK(after.begins == 0);
  const auto next = next_work(mixed_parameters, {.word = 0, .completed = 5, .stamp = 5}, limits, every_ten());
  CHECK((next.verbs == std::vector{gradient}));  // x has left
  CHECK(next.word_after == 1);
}

TEST_CASE("a request ends where whole steps without an exchange follow") {
  const std::vector<loop_word> loop{gradient, exchange_of(slot::gradient, 4), apply};
  const auto work =
      next_work(loop, {.word = 2, .completed = 4, .stamp = 4}, {.granted = 50, .steps_at_once = 16}, every_ten());
  CHECK((work.verbs == std::vector{apply}));
  CHECK(work.word_after == 0);
  CHECK(work.steps == 1);
}

TEST_CASE("a gradient leaves in buckets only if the exchange that takes them comes next") {
  auto in_buckets = exchange_of(slot::gradient);
  in_buckets.buckets = std::make_shared<const std::vector<range>>(std::vector<range>{{0, 8}, {8, 8}});
  const std::vector<loop_word> loop{gradient, in_buckets, apply};
  CHECK(gradient_destination(loop, {.verbs = {apply, gradient}, .word_after = 1}).buckets == in_buckets.buckets);
  CHECK(gradient_destination(loop, {.verbs = {apply, gradient}, .word_after = 1}).place == 1);
  CHECK_FALSE(gradient_destination(loop, {.verbs = {apply}, .word_after = 0}).buckets);
  CHECK_FALSE(gradient_destination(averaged_gradients, {.verbs = {gradient}, .word_after = 1}).buckets);
}

TEST_CASE("the host needs what the next exchange sends, unless it stays on the device") {
  const auto needs = [](const std::vector<loop_word>& loop, const local_work& work, bool in_buckets = false) {
    const auto found = needs_after(loop, work, 0, in_buckets);
    return std::pair{found.parameters, found.gradient};
  };
  const local_work one_gradient{.verbs = {gradient}, .word_after = 1};
  CHECK(needs(averaged_gradients, one_gradient) == std::pair{false, true});
  CHECK(needs(averaged_gradients, one_gradient, true) == std::pair{false, false});
  CHECK(needs(mixed_parameters, {.verbs = {apply}, .word_after = 0}) == std::pair{true, false});
  CHECK(needs(local, {.verbs = {gradient, apply}, .times = 5}) == std::pair{false, false});
  // Three steps lead to stamp 3, at which no exchange is due; four lead to stamp 4.
  CHECK(needs(averaged_afterwards, {.verbs = {gradient, apply}, .times = 3, .word_after = 2}) ==
        std::pair{false, false});
  CHECK(needs(averaged_afterwards, {.verbs = {gradient, apply}, .times = 4, .word_after = 2}) ==
        std::pair{true, false});
  auto on_device = exchange_of(slot::gradient);
  on_device.on_device = true;
  CHECK(needs({gradient, on_device, apply}, one_gradient) == std::pair{false, false});
}

TEST_CASE("with a queue, the ends of assignments are the milestones") {
  auto reports = every_ten();
  reports.last = 1000;
  reports.draws_from_queue = true;
  CHECK_FALSE(reports.is_milestone(10));
  CHECK(reports.next_milestone(10) == 10);  // nothing is assigned
  reports.assigned = {{.first_step = 10, .first_batch = 40, .count = 3}, {.first_step = 13, .count = 2}};
  CHECK(reports.next_milestone(10) == 13);
  CHECK(reports.is_milestone(13));
  CHECK_FALSE(reports.is_milestone(15));  // the assignment before it is still open
}

}  // namespace loop_test
