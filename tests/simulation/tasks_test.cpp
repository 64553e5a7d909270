// Lanes know the tasks of their jobs, so that a simulation can assign durations to them.
#include "tests/support/doctest.hpp"
#include "tests/support/wirings.hpp"

#include "troupe/runtime/launch/launcher.hpp"
#include "troupe/runtime/simulation/simulation.hpp"

#include <caf/all.hpp>

#include <map>

namespace tasks_test {

namespace {

using namespace troupe;
using std::chrono::microseconds;

}  // namespace

TEST_CASE("jobs say what they do, and how much of it") {
  auto plan = tests::tiny_plan({.workers = 2, .steps = 6, .evaluate_every = 3});
  plan.when.verify_every = 2;
  std::map<std::string, std::map<task::kind, std::vector<task>>> seen;
  simulation_options options;
  options.lanes.duration_of = [&](const actor_label& actor, const task& what) {
    seen[actor.name][what.what].push_back(what);
    return microseconds{10};
  };
  models::buffer_pool pool;
  const auto end = simulate(plan, tests::tiny_data(), initial_weights(plan, pool), pool,
                            std::make_shared<tests::remembered>(), options);
  REQUIRE_FALSE(end.failure);
  std::uint64_t gradients = 0;
  std::int64_t elements = 0;
  for (const auto& one : seen["compute 0"][task::kind::advance]) {
    gradients += one.gradients;
    elements += one.elements;
    CHECK(one.samples == plan.sampling.batch_size);
  }
  CHECK(gradients == 6);
  CHECK(elements == 2 * 6 * plan.layout.parameter_end);  // takes the mean gradient, and applies it
  CHECK(seen["compute 1"][task::kind::digest].size() == 3);
  REQUIRE(seen["evaluator"][task::kind::evaluate].size() == 2);
  CHECK(seen["evaluator"][task::kind::evaluate].front().samples == tests::tiny_data().test->size());
  CHECK_FALSE(seen["recorder"][task::kind::write].empty());
}

TEST_CASE("a worker that computes four times as slowly makes a fifth of the updates of two workers") {
  const auto& wirings = tests::asynchronous_wirings();
  const auto found = std::find_if(wirings.begin(), wirings.end(), [](const auto& one) {
    return one.exchange == "parameter_server" && one.exchanges.empty() && one.loop.size() == 2;
  });
  REQUIRE(found != wirings.end());
  auto wiring = *found;
  wiring.workers = 2;
  wiring.steps = 100;
  wiring.evaluate_every = 100;
  auto plan = tests::tiny_plan(wiring);
  std::map<std::string, std::uint64_t> gradients;
  simulation_options options;
  options.lanes.duration_of = [&](const actor_label& actor, const task& what) {
    if (gradients["compute 0"] < 100) gradients[actor.name] += what.gradients;
    return microseconds{actor.name == "compute 1" ? 4000 : actor.name == "compute 0" ? 1000 : 0};
  };
  models::buffer_pool pool;
  const auto end = simulate(plan, tests::tiny_data(), initial_weights(plan, pool), pool,
                            std::make_shared<tests::remembered>(), options);
  REQUIRE_FALSE(end.failure);
  CHECK(gradients["compute 1"] >= 24);
  CHECK(gradients["compute 1"] <= 26);
}

}  // namespace tasks_test
