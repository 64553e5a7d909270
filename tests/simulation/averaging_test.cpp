// Averaging parameters after every step equals reducing gradients if, and only if, the optimizer is linear in the
// gradient.
#include "tests/support/doctest.hpp"
#include "tests/support/tiny.hpp"

#include "troupe/runtime/plan/recipe.hpp"
#include "troupe/runtime/simulation/simulation.hpp"

#include <functional>
#include <string>

namespace averaging_test {

namespace {

using namespace troupe;

using changes = std::function<void(topology::optimizer_settings&)>;

tests::tiny_options gradients_reduced() {
  return {.workers = 3, .steps = 30};
}

tests::tiny_options parameters_averaged() {
  return {.workers = 3, .sends = "parameters", .loop = {"gradient", "apply", "exchange"}, .steps = 30};
}

tests::tiny_options gossip_of_all() {
  return {.workers = 3,
          .exchange = "gossip",
          .settings = {{"graph", std::string{"complete"}}, {"weights", std::string{"metropolis"}}},
          .loop = {"gradient", "apply", "exchange"},
          .steps = 30};
}

at::Tensor result_of(const tests::tiny_options& options, const changes& change) {
  auto plan = tests::tiny_plan(options);
  auto& settings = plan.file.optimizer;
  settings = {};
  settings.lr = 0.1;
  change(settings);
  plan.optimizer = optimizer_of(plan);
  auto journal = std::make_shared<tests::remembered>();
  models::buffer_pool pool;
  const auto end = simulate(plan, tests::tiny_data(), initial_weights(plan, pool), pool, journal, {.seed = 1});
  REQUIRE_MESSAGE(!end.failure, end.failure.value_or(""));
  return journal->result;
}

double difference(const tests::tiny_options& options, const changes& change) {
  const auto moved = (result_of(gradients_reduced(), change) - result_of({.workers = 3, .steps = 0}, change)).norm();
  REQUIRE(moved.item<double>() > 0.1);
  return (result_of(options, change) - result_of(gradients_reduced(), change)).abs().max().item<double>();
}

}  // namespace

TEST_CASE("averaging parameters after every step is averaging gradients where the step is linear in the gradient") {
  const auto momentum = [](auto& settings) { settings.momentum = 0.9; };
  const auto nesterov = [](auto& settings) {
    settings.momentum = 0.9;
    settings.nesterov = true;
    settings.weight_decay = 0.01;
  };
  for (const auto& options : {parameters_averaged(), gossip_of_all()}) {
    CAPTURE(options.exchange);
    CHECK(difference(options, [](auto&) {}) < 1e-5);
    CHECK(difference(options, momentum) < 1e-5);
    CHECK(difference(options, nesterov) < 1e-5);
  }
}

TEST_CASE("averaging parameters after every step is something else under Adam, NovoGrad or clipping") {
  const auto adam = [](auto& settings) { settings.name = "adam"; };
  const auto novograd = [](auto& settings) { settings.name = "novograd"; };
  const auto clipping = [](auto& settings) { settings.clip_norm = 0.2; };
  for (const auto& options : {parameters_averaged(), gossip_of_all()}) {
    CAPTURE(options.exchange);
    CHECK(difference(options, adam) > 1e-3);
    CHECK(difference(options, novograd) > 1e-3);
    CHECK(difference(options, clipping) > 1e-3);
  }
}

}  // namespace averaging_test
