// Runs over several nodes in virtual time: the same bits whatever the links, and one end whatever the fault.
#include "troupe/runtime/node/simulate_nodes.hpp"

#include "tests/support/doctest.hpp"
#include "tests/support/repeat.hpp"
#include "tests/support/wirings.hpp"

#include "troupe/runtime/node/launcher.hpp"
#include "troupe/runtime/node/simulation.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace {

using namespace troupe;
using namespace std::chrono_literals;
using tests::name_of;
using tests::remembered;
using tests::tiny_options;

/// Distributes the workers of a wiring over three nodes.
tiny_options over_three_nodes(tiny_options wiring) {
  wiring.nodes = {1, 1, wiring.workers - 2};
  return wiring;
}

struct outcome_of_run {
  simulated_end all;
  std::shared_ptr<remembered> book = std::make_shared<remembered>();
};

outcome_of_run simulated(const plan& plan, const simulate_nodes_options& options) {
  outcome_of_run made;
  models::buffer_pool pool;
  made.all = simulate_nodes(plan, tests::tiny_data(), initial_weights(plan, pool), pool, made.book, options);
  return made;
}

at::Tensor result_in_one_process(tiny_options wiring) {
  wiring.nodes.clear();
  const auto plan = tests::tiny_plan(wiring);
  models::buffer_pool pool;
  auto book = std::make_shared<remembered>();
  REQUIRE_FALSE(simulate(plan, tests::tiny_data(), initial_weights(plan, pool), pool, book, {}).failure);
  return book->result;
}

}  // namespace

TEST_CASE("each wiring over three nodes ends in the bits of one process, whatever the schedule") {
  for (const auto& each : tests::deterministic_wirings()) {
    CAPTURE(name_of(each));
    const auto wiring = over_three_nodes(each);
    const auto expected = result_in_one_process(wiring);
    for (std::uint64_t seed = 0; seed < tests::repeat(3, 50); ++seed) {
      CAPTURE(seed);
      const auto run = simulated(tests::tiny_plan(wiring), {.seed = seed});
      for (const auto& node : run.all.nodes) {
        REQUIRE(node.end);
        CHECK(node.end->failure.value_or("") == "");
        CHECK(node.end->status() == 0);
      }
      CHECK(run.book->result.equal(expected));
      CHECK(run.all.messages > 0);
    }
  }
}

TEST_CASE("each asynchronous wiring over three nodes ends cleanly, and the same way from the same seed") {
  for (const auto& each : tests::asynchronous_wirings()) {
    CAPTURE(name_of(each));
    const auto plan = tests::tiny_plan(over_three_nodes(each));
    for (std::uint64_t seed = 0; seed < tests::repeat(3, 50); ++seed) {
      CAPTURE(seed);
      const auto run = simulated(plan, {.seed = seed}), again = simulated(plan, {.seed = seed});
      for (const auto& node : run.all.nodes) {
        REQUIRE(node.end);
        CHECK(node.end->failure.value_or("") == "");
      }
      CHECK(run.book->result.equal(again.book->result));
      CHECK(run.all.messages == again.all.messages);
    }
  }
}
