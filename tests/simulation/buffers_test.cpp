// Running statistics of batch norm under every wiring: they are kept, averaged into the result, and never lost.
#include "tests/support/doctest.hpp"
#include "tests/support/repeat.hpp"
#include "tests/support/wirings.hpp"

#include "troupe/runtime/launch/launcher.hpp"
#include "troupe/runtime/simulation/simulation.hpp"

#include <string>
#include <vector>

namespace buffers_test {

namespace {

using namespace troupe;
using tests::remembered;
using tests::tiny_options;

/// Every wiring, on a network with batch norm. Wirings that exchange parameters also occur with the buffers mixed.
std::vector<tiny_options> every_wiring() {
  std::vector<tiny_options> all;
  for (const auto* some : {&tests::deterministic_wirings(), &tests::asynchronous_wirings()}) {
    for (auto one : *some) {
      one.normed = true;
      all.push_back(one);
      if (one.exchanges.empty() && (one.exchange == "gossip" || one.sends == "parameters")) {
        one.settings["buffers"] = std::string{"mix"};
        all.push_back(one);
      }
    }
  }
  return all;
}

void check_result(const plan& plan, const remembered& journal, double passes) {
  const auto& layout = plan.layout;
  REQUIRE(journal.result.numel() == layout.total);
  CHECK(journal.result.isfinite().all().item<bool>());
  for (const auto& entry : layout.buffers) {
    if (!entry.integer) continue;
    CAPTURE(entry.name);
    CHECK(journal.result[entry.first].item<double>() == doctest::Approx(passes).epsilon(1e-4));
  }
}

}  // namespace

TEST_CASE("every wiring keeps the running statistics, and counts each pass once") {
  for (const auto& options : every_wiring()) {
    CAPTURE(name_of(options));
    const auto plan = tests::tiny_plan(options);
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
      models::buffer_pool pool;
      const auto journal = std::make_shared<remembered>();
      const auto initial = initial_weights(plan, pool);
      const auto end = simulate(plan, tests::tiny_data(options.samples), initial, pool, journal, {.seed = seed});
      REQUIRE_FALSE(end.failure);
      // A memory holds the statistics of all workers that share it.
      const auto sharing = plan.memory_of(0) ? plan.workers / plan.stores().size() : 1;
      check_result(plan, *journal, static_cast<double>(options.steps * sharing));
      const auto buffers = plan.layout.total - plan.layout.parameter_end;
      CHECK_FALSE(journal->result.narrow(0, plan.layout.parameter_end, buffers)
                      .equal(initial.narrow(0, plan.layout.parameter_end, buffers)));
    }
  }
}

TEST_CASE("a run of any wiring that is interrupted saves parameters and statistics, early stop or not") {
  for (const auto& options : every_wiring()) {
    CAPTURE(name_of(options));
    auto plan = tests::tiny_plan(options);
    plan.file.evaluate.target_accuracy = 1.0;  // then workers wait for each verdict
    plan.file.evaluate.target_hold = 3;
    for (std::uint64_t event = 40; event < 400; event += tests::repeat(36, 9)) {
      CAPTURE(event);
      models::buffer_pool pool;
      const auto journal = std::make_shared<remembered>();
      const auto end = simulate(plan, tests::tiny_data(options.samples), initial_weights(plan, pool), pool, journal,
                                {.seed = event, .after_event = tests::interrupt_at(event)});
      REQUIRE_FALSE(end.failure);
      REQUIRE(journal->result.defined());
      CHECK(journal->result.numel() == plan.layout.total);
    }
  }
}

namespace {

/// Batch norm on a ring, where each worker has its own running statistics.
tiny_options normed_ring(std::uint64_t evaluate_every) {
  auto options = tests::deterministic_wirings()[9];
  options.normed = true;
  options.evaluate_every = evaluate_every;
  return options;
}

std::shared_ptr<remembered> book_of(const plan& plan, simulation_options simulation = {.seed = 3}) {
  models::buffer_pool pool;
  auto journal = std::make_shared<remembered>();
  const auto end = simulate(plan, tests::tiny_data(), initial_weights(plan, pool), pool, journal, simulation);
  REQUIRE_MESSAGE(!end.failure, end.failure.value_or(""));
  return journal;
}

}  // namespace

TEST_CASE("an evaluation averages parameters and statistics, and hands nothing back to the workers") {
  REQUIRE(normed_ring(1).exchange == "gossip");
  const auto often = book_of(tests::tiny_plan(normed_ring(1))), once = book_of(tests::tiny_plan(normed_ring(10)));
  CHECK(often->of("evaluation").size() == 10);
  CHECK(once->of("evaluation").size() == 1);
  CHECK(often->result.equal(once->result));
  CHECK(often->lines.back().consensus_distance == once->lines.back().consensus_distance);
  CHECK(*once->lines.back().consensus_distance > 0);
}

TEST_CASE("with buffers = first the result has the statistics of the first worker, and the parameters as ever") {
  for (const std::size_t which : {3U, 9U}) {  // all_reduce of gradients, with snapshots of worker 0 only, and a ring
    auto options = tests::deterministic_wirings()[which];
    options.normed = true;
    CAPTURE(name_of(options));
    auto plan = tests::tiny_plan(options);
    const auto mean = book_of(plan)->result;
    plan.file.evaluate.buffers = "first";
    const auto first = book_of(plan)->result;
    const auto parameters = plan.layout.parameter_end, buffers = plan.layout.total - parameters;
    CHECK(first.narrow(0, 0, parameters).equal(mean.narrow(0, 0, parameters)));
    CHECK_FALSE(first.narrow(0, parameters, buffers).equal(mean.narrow(0, parameters, buffers)));
  }
  for (const auto& options : every_wiring()) {
    CAPTURE(name_of(options));
    auto plan = tests::tiny_plan(options);
    plan.file.evaluate.buffers = "first";
    const auto sharing = plan.memory_of(0) ? plan.workers / plan.stores().size() : 1;
    check_result(plan, *book_of(plan), static_cast<double>(options.steps * sharing));
    CHECK(book_of(plan, {.seed = 4, .after_event = tests::interrupt_at(90)})->result.numel() == plan.layout.total);
  }
  // The statistics are those of the first worker: compare with a run of worker 0 alone.
  auto options = tests::deterministic_wirings()[0];
  options.normed = true;
  auto plan = tests::tiny_plan(options);
  plan.file.evaluate.buffers = "first";
  const auto first = book_of(plan)->result;
  auto alone = plan;
  alone.workers = 1;  // it still sees a third of the samples
  alone.nodes.front().workers = 1;
  const auto own = book_of(alone)->result;
  const auto parameters = plan.layout.parameter_end, buffers = plan.layout.total - parameters;
  CHECK(first.narrow(0, parameters, buffers).equal(own.narrow(0, parameters, buffers)));
}

}  // namespace buffers_test
