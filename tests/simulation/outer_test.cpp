// Outer optimizers in whole runs: the limits in which they are model averaging, bit for bit, and encodings of what the
// workers have changed.
#include "tests/support/doctest.hpp"
#include "tests/support/tiny.hpp"

#include "troupe/runtime/plan/recipe.hpp"
#include "troupe/runtime/simulation/simulation.hpp"

#include <string>

namespace outer_test {

namespace {

using namespace troupe;

tests::tiny_options averaging(const setting_values& outer = {}, std::uint64_t every = 5) {
  setting_values settings{{"route", std::string{"auto"}}};
  settings.insert(outer.begin(), outer.end());
  return {.workers = 3,
          .settings = settings,
          .sends = "parameters",
          .every = every,
          .loop = {"gradient", "apply", "exchange"},
          .steps = 30};
}

setting_values rule(const std::string& name, double lr, double momentum) {
  return {{"outer", name}, {"outer_lr", lr}, {"outer_momentum", momentum}};
}

at::Tensor result_of(const tests::tiny_options& options) {
  const auto plan = tests::tiny_plan(options);
  auto journal = std::make_shared<tests::remembered>();
  models::buffer_pool pool;
  const auto end = simulate(plan, tests::tiny_data(), initial_weights(plan, pool), pool, journal, {.seed = 1});
  REQUIRE_MESSAGE(!end.failure, end.failure.value_or(""));
  return journal->result;
}

}  // namespace

TEST_CASE("an outer optimizer of rate 1 without momentum is model averaging, bit for bit") {
  const auto expected = result_of(averaging());
  for (const auto* name : {"momentum", "nesterov", "slowmo"}) {
    CAPTURE(name);
    CHECK(result_of(averaging(rule(name, 1, 0))).equal(expected));
  }
  CHECK(!result_of(averaging(rule("nesterov", 0.7, 0.9))).equal(expected));
}

TEST_CASE("slow momentum is outer momentum under a constant rate, bit for bit") {
  CHECK(result_of(averaging(rule("slowmo", 0.9, 0.6))).equal(result_of(averaging(rule("momentum", 0.9, 0.6)))));
}

TEST_CASE("an outer optimizer has the same bits on every route that adds in rank order") {
  const auto expected = result_of(averaging(rule("nesterov", 0.7, 0.9)));
  for (const auto* route : {"direct", "chain", "all_gather"}) {
    auto options = averaging(rule("nesterov", 0.7, 0.9));
    options.settings["route"] = std::string(route);
    CHECK(result_of(options).equal(expected));
  }
}

}  // namespace outer_test
