// Runs over several nodes in virtual time: the same bits whatever the links, and one outcome whatever the fault.
#include "tests/support/doctest.hpp"
#include "tests/support/node_runs.hpp"
#include "tests/support/repeat.hpp"
#include "tests/support/wirings.hpp"

#include "troupe/runtime/simulation/simulation.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace nodes_test {

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
      CHECK(run.journal->result.equal(again.journal->result));
      CHECK(run.all.messages == again.all.messages);
    }
  }
}

TEST_CASE("of faults that overlap, none ends another one") {
  const node_runs runs{over_three_nodes(deterministic_wirings().front())};
  const auto of = [](node_fault::kind what, std::chrono::milliseconds lasting, std::chrono::milliseconds delay = {}) {
    return node_fault{.what = what, .at_step = 1, .node = 1, .other = 0, .lasting = lasting, .delay = delay};
  };
  using kind = node_fault::kind;
  constexpr std::chrono::milliseconds to_the_end{0}, short_while{10};
  const auto faults_lose = [&](const std::vector<node_fault>& faults) {
    const auto end = runs.run({.faults = faults}).all.nodes[0].end;
    REQUIRE(end);
    return end->failure.value_or("").find("is lost") != std::string::npos;
  };
  for (const auto what : {kind::freeze, kind::cut}) {
    CHECK(!faults_lose({of(what, short_while)}));
    CHECK(faults_lose({of(what, to_the_end), of(what, short_while)}));
    CHECK(faults_lose({of(what, short_while), of(what, to_the_end)}));
  }
  const auto seconds = [&](const std::vector<node_fault>& faults) {
    return runs.run({.faults = faults}).all.nodes[0].ended_at;
  };
  const auto slowed = of(kind::slow, to_the_end, std::chrono::milliseconds{500});
  CHECK(seconds({slowed, of(kind::slow, short_while, std::chrono::milliseconds{5})}) >
        seconds({}) + std::chrono::milliseconds{900});
}

TEST_CASE("a node that is lost while the result is being saved does not fail the run") {
  const node_runs runs{
      over_three_nodes({.workers = 3, .exchange = "star", .settings = {{"send", std::string{"whole"}}}})};
  std::uint64_t saved = 0;
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    const auto messages = runs.run({.seed = seed}).all.messages;
    for (auto message = messages - 12; message < messages; ++message) {
      CAPTURE(seed);
      CAPTURE(message);
      // Node 2 is so slow to answer which ranks wait for the lost node that the coordinator ends first.
      const auto run = runs.run({.seed = seed,
                                 .faults = {{.what = node_fault::kind::slow,
                                             .before = message,
                                             .node = 0,
                                             .other = 2,
                                             .delay = std::chrono::milliseconds{500}},
                                            {.what = node_fault::kind::kill, .before = message, .node = 1}}});
      if (!run.journal->result.defined()) continue;
      ++saved;
      REQUIRE(run.all.nodes[0].end);
      CHECK(run.all.nodes[0].end->failure.value_or("") == "");
    }
  }
  CHECK(saved > 0);
}

}  // namespace nodes_test
