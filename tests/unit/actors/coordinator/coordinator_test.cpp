// When a coordinator has the weights evaluated, kept and saved, and what stops a run early.
#include "troupe/actors/coordinator/coordinator.hpp"

#include "tests/support/doctest.hpp"
#include "tests/support/rehearsal.hpp"

#include <caf/all.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace coordinator_test {

namespace {

using namespace troupe;
using namespace troupe::testing;

/// Accuracies in the order of the evaluations.
std::function<evaluation(const snapshot&)> accuracies(std::vector<double> values) {
  return [values, next = std::size_t{0}](const snapshot& weights) mutable {
    return evaluation{.step = weights.origin.step, .loss = 1, .accuracy = values.at(next++), .sample_count = 1};
  };
}

}  // namespace

TEST_CASE("a step is evaluated once its milestones and its snapshot have come, in whichever order") {
  rehearsal here{true};
  SUBCASE("the snapshot first") {
    here.show(0, 1, 7);
    here.reach(0, 1);
    here.reach(1, 1);
  }
  SUBCASE("the snapshot last") {
    here.reach(0, 1);
    here.reach(1, 1);
    CHECK(here.all->evaluated.empty());
    here.show(0, 1, 7);
  }
  SUBCASE("the snapshot of the step after it before") {
    here.show(0, 2, 8);
    here.show(0, 1, 7);
    here.reach(1, 1);
    here.reach(0, 1);
  }
  CHECK(here.all->evaluated == std::vector<float>{7});
  CHECK(here.all->events == std::vector<std::string>{"start", "evaluation"});
}

TEST_CASE("where replicas differ, the mean of all is evaluated when the last has come") {
  rehearsal here{false};
  here.reach(0, 1);
  here.reach(1, 1);
  here.show(1, 1, 4);
  CHECK(here.all->evaluated.empty());
  here.show(0, 1, 2);
  CHECK(here.all->evaluated == std::vector<float>{3});
}

TEST_CASE("an interrupted run saves the snapshot of its last step, also where that comes last, and evaluates no more") {
  rehearsal here{true};
  SUBCASE("reported before the interruption") {
    here.reach(0, 1);
    here.reach(1, 1);
    caf::anon_send(here.coordinator, halt_atom_v);
    here.run();
    CHECK(here.all->finished == std::vector<std::uint64_t>{1, 1});
    CHECK(here.all->saved.empty());
    here.show(0, 1, 7);
  }
  SUBCASE("reported after it") {
    caf::anon_send(here.coordinator, halt_atom_v);
    here.run();
    here.show(0, 1, 7);
    here.reach(1, 1);
    here.reach(0, 1);
  }
  CHECK(here.all->evaluated.empty());
  CHECK(here.all->saved == std::vector<float>{7});
  CHECK(here.all->events.back() == "end interrupted");
}

TEST_CASE("an answer to a halt that nobody asked for, or that comes again, changes nothing") {
  rehearsal here{true};
  const auto answer = [&](std::uint32_t rank) {
    caf::anon_send(here.coordinator, control::halted{rank_id{rank}, 3});
    here.run();
  };
  answer(0);
  answer(7);
  CHECK(here.all->finished.empty());
  here.reach(0, 1);
  here.reach(1, 1);
  caf::anon_send(here.coordinator, halt_atom_v);
  here.run();
  answer(1);
  CHECK(here.all->finished == std::vector<std::uint64_t>{1, 1});
  here.show(0, 1, 7);
  CHECK(here.all->events.back() == "end interrupted");
}

TEST_CASE("a worker that reports more steps than the run has ends the run instead of prolonging it") {
  std::string why;
  rehearsal here{true};
  here.all->begun = 5;
  caf::actor_cast<caf::abstract_actor*>(here.coordinator)->attach_functor([&](const caf::error& reason) {
    if (why.empty()) why = describe(reason);
  });
  caf::anon_send(here.coordinator, halt_atom_v);
  here.run();
  CHECK(why.find("worker 0 reports 5 steps, which are more than the run has") != std::string::npos);
  CHECK(here.all->finished.empty());
}

TEST_CASE("the result of an evaluation that is better than all before is kept, also of the last one") {
  rehearsal here{true};
  SUBCASE("by accuracy") {
    here.all->verdict = accuracies({0.5, 0.7, 0.7, 0.8});
  }
  SUBCASE("by loss where samples stand for numbers, one that is no number never") {
    here.all->verdict = [](const snapshot& weights) {
      const double losses[] = {3, 2, std::numeric_limits<double>::quiet_NaN(), 1};
      return evaluation{.step = weights.origin.step, .loss = losses[weights.origin.step - 1], .sample_count = 1};
    };
  }
  for (std::uint64_t step = 1; step <= 4; ++step) here.complete(step, static_cast<float>(step));
  CHECK(here.all->kept == std::vector<float>{1, 2, 4});
  CHECK(here.all->saved == std::vector<float>{4});
}

TEST_CASE("patience runs out after so many evaluations without improvement") {
  rehearsal here{true, stopping(2, {})};
  here.all->verdict = accuracies({0.5, 0.6, 0.6, 0.55});
  for (std::uint64_t step = 1; step <= 4; ++step) here.complete(step, static_cast<float>(step));
  CHECK(here.all->events.back() == "end done");  // the last evaluation no longer stops anything
  CHECK(here.all->kept == std::vector<float>{1, 2});
}

TEST_CASE("patience and target stop a run early at the step of the verdict") {
  SUBCASE("patience") {
    rehearsal here{true, stopping(1, {})};
    here.all->verdict = accuracies({0.5, 0.5});
    here.complete(1, 1);
    here.complete(2, 2);
    CHECK(here.all->events.back() == "end stopped_early");
    CHECK(here.all->lines.back().step == 2);
    CHECK(here.all->saved == std::vector<float>{2});
    CHECK(here.all->kept == std::vector<float>{1});
  }
  SUBCASE("target, reached, missed, and reached twice at the end") {
    rehearsal here{true, stopping({}, 0.6)};
    here.all->verdict = accuracies({0.6, 0.5, 0.7, 0.6});
    for (std::uint64_t step = 1; step <= 4; ++step) here.complete(step, static_cast<float>(step));
    CHECK(here.all->events.back() == "end done");
  }
  SUBCASE("target, reached in two evaluations in a row") {
    rehearsal here{true, stopping({}, 0.6)};
    here.all->verdict = accuracies({0.5, 0.6, 0.7});
    for (std::uint64_t step = 1; step <= 3; ++step) here.complete(step, static_cast<float>(step));
    CHECK(here.all->events.back() == "end stopped_early");
    CHECK(here.all->lines.back().step == 3);
  }
}

TEST_CASE("a verdict ends a run that has already reported a later step") {
  auto options = stopping({}, 0.5);
  options.stop.target_hold = 1;
  rehearsal here{true, options};
  for (const std::uint64_t step : {1, 2})
    for (const std::uint32_t rank : {0U, 1U}) here.reach(rank, step);
  here.show(0, 1, 1);
  CHECK(here.all->events.back() == "end stopped_early");
  CHECK(here.all->lines.back().step == 1);
  CHECK(here.all->saved == std::vector<float>{1});
}

TEST_CASE("workers that pause are granted one evaluation at a time") {
  for (const bool pauses : {false, true}) {
    auto options = pausing();
    options.pauses = pauses;
    rehearsal here{true, options};
    CHECK(here.all->granted.back() == (pauses ? 1 : 2));
    here.complete(1, 1);
    CHECK(here.all->granted.back() == (pauses ? 2 : 3));
  }
}

}  // namespace coordinator_test
