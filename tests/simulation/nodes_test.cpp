// Runs over several nodes in virtual time: the same bits whatever the links, and one end whatever the fault.
#include "tests/support/doctest.hpp"
#include "tests/support/node_runs.hpp"
#include "tests/support/repeat.hpp"
#include "tests/support/wirings.hpp"

#include "troupe/runtime/node/simulate_nodes.hpp"

#include <cstdint>

using namespace troupe;
using namespace troupe::tests;

TEST_CASE("each wiring over three nodes ends in the bits of one process, whatever the schedule") {
  for (const auto& each : deterministic_wirings()) {
    CAPTURE(name_of(each));
    const node_runs runs{over_three_nodes(each)};
    for (std::uint64_t seed = 0; seed < repeat(3, 50); ++seed) runs.check({.seed = seed});
  }
}

TEST_CASE("each asynchronous wiring over three nodes ends cleanly, and the same way from the same seed") {
  for (const auto& each : asynchronous_wirings()) {
    CAPTURE(name_of(each));
    const node_runs runs{over_three_nodes(each)};
    for (std::uint64_t seed = 0; seed < repeat(3, 50); ++seed) {
      CAPTURE(seed);
      const auto run = runs.run({.seed = seed}), again = runs.run({.seed = seed});
      for (const auto& node : run.all.nodes) {
        REQUIRE(node.end);
        CHECK(node.end->failure.value_or("") == "");
      }
      CHECK(run.book->result.equal(again.book->result));
      CHECK(run.all.messages == again.all.messages);
    }
  }
}
