#include "troupe/runtime/plan/faults.hpp"

#include "tests/support/doctest.hpp"
#include "tests/support/plan_refusal.hpp"
#include "tests/support/plans.hpp"

#include "troupe/runtime/simulation/fault_times.hpp"
#include "troupe/runtime/topology/load.hpp"

#include <chrono>
#include <string>
#include <vector>

namespace plan_faults_test {

using namespace troupe;
using namespace std::chrono_literals;
using testing::four_workers;

namespace {

topology::topology file_with(const topology::fault_settings& fault) {
  auto file = four_workers();
  file.nodes = {{.name = "alpha", .workers = 2}, {.name = "beta", .workers = 1}, {.name = "gamma", .workers = 1}};
  file.faults = {fault};
  return file;
}

bool refused(const topology::fault_settings& fault, const std::string& words) {
  const auto text = testing::refusal(file_with(fault));
  CAPTURE(text);
  CHECK(text.find("fault.0") != std::string::npos);
  return text.find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("a fault is planned with its time and its nodes") {
  const auto killed = make_plan(file_with({.kind = "kill", .at = "step 100", .node = "beta"}), 60'000).faults.at(0);
  CHECK((killed.at_step == 100));
  CHECK(killed.nodes == std::vector<std::uint32_t>{1});
  CHECK(describe(killed) == "kill beta at step 100");
  const auto cut =
      make_plan(file_with({.kind = "partition", .at = "1.5s", .between = {"gamma", "alpha"}, .lasts = 2s}), 60'000)
          .faults.at(0);
  CHECK(!cut.at_step);
  CHECK(cut.at_time == 1500ms);
  CHECK(cut.nodes == std::vector<std::uint32_t>{2, 0});
  CHECK(describe(cut) == "partition gamma ↔ alpha at 1.5s for 2s");
}

TEST_CASE("a fault that cannot happen is refused with what was expected") {
  CHECK(refused({.kind = "kill", .at = "step 100"}, "expected node = \"gamma\""));
  CHECK(refused({.kind = "kill", .at = "step 100", .node = "betta"}, "expected \"alpha\", \"beta\" or \"gamma\""));
  CHECK(refused({.kind = "kill", .at = "step 100", .node = "bet"}, "did you mean"));
  CHECK(refused({.kind = "freeze", .at = "step 1", .between = {"alpha", "beta"}}, "expected node instead of between"));
  CHECK(refused({.kind = "partition", .at = "1s"}, "either node or between = [\"alpha\", \"beta\"]"));
  CHECK(refused({.kind = "partition", .at = "1s", .node = "beta", .between = {"alpha", "beta"}}, "either node or"));
  CHECK(refused({.kind = "partition", .at = "1s", .between = {"beta", "beta"}}, "two different"));
  CHECK(refused({.kind = "partition", .at = "1s", .between = {"beta"}}, "two different"));
  CHECK(refused({.kind = "slow", .at = "1s", .node = "beta"}, "requires a latency"));
  CHECK(refused({.kind = "freeze", .at = "1s", .node = "beta", .latency = 5ms}, "uses no latency"));
  CHECK(refused({.kind = "kill", .at = "1s", .node = "beta", .lasts = 5ms}, "remove lasts"));
  CHECK(refused({.kind = "freeze", .at = "1s", .node = "beta", .lasts = 0ms}, "a longer time"));
  CHECK(refused({.at = "1s", .node = "beta"}, "expected \"kill\", \"freeze\", \"partition\" or \"slow\""));
  for (const auto* at : {"", "step", "step x", "step -1", "step 1 2", "later", "20"}) {
    CAPTURE(at);
    CHECK(refused({.kind = "kill", .at = at, .node = "beta"}, "expected at = \"step 100\", or a time such as \"20s\""));
  }
  CHECK(refused({.kind = "kill", .at = "step 99999999", .node = "beta"}, "but the run ends after"));
}

TEST_CASE("a fault requires several nodes, and a simulation") {
  auto alone = four_workers();
  alone.faults = {{.kind = "kill", .at = "1s", .node = "alpha"}};
  CHECK(testing::refusal(alone).find("at least two [[node]] sections") != std::string::npos);
  const auto plan = make_plan(file_with({.kind = "kill", .at = "1s", .node = "beta"}), 60'000);
  CHECK_THROWS_WITH(check_no_faults(plan), doctest::Contains("[[fault]] works only in `troupe simulate`"));
}

TEST_CASE("faults are read from a file and printed into it") {
  const std::string text = R"([exchange]
kind = "star"
[[node]]
name = "alpha"
[[node]]
name = "beta"
[[fault]]
kind = "freeze"
at = "step 5"
node = "beta"
lasts = "2s"
[[fault]]
kind = "slow"
at = "1ms"
between = ["alpha", "beta"]
latency = "50us"
)";
  const auto file = topology::parse(text, "faults.toml");
  REQUIRE(file.faults.size() == 2);
  CHECK(file.faults[0].node == "beta");
  CHECK((file.faults[1].latency == 50us));
  CHECK((topology::parse(topology::print(file), "faults.toml").faults == file.faults));
  CHECK_THROWS_WITH(topology::parse("[[fault]]\nkind = \"freze\"\n", "faults.toml"), doctest::Contains("\"freeze\""));
}

TEST_CASE("a fault happens once, when every worker has made its steps, or at its time after training began") {
  const auto plan = make_plan(four_workers(), 60'000);
  fault_times times{plan, {{.at_step = 2}, {.at_time = 5ms}, {.before = 3}, {.at_step = 0}}};
  CHECK(times.take_due(2, 1s).empty());
  CHECK(times.take_due(3, 1s).size() == 1);  // the fault before a message
  CHECK(!times.next_due());
  times.begin(1s);
  CHECK((times.next_due() == 1s + 5ms));
  CHECK(times.take_due(3, 1s).size() == 1);  // the fault at step 0
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    times.note_step(rank, 1);
    CHECK(times.take_due(3, 1s).empty());
  }
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    CHECK(times.take_due(3, 1s).empty());
    times.note_step(rank, 3);
  }
  CHECK(times.take_due(3, 1s).size() == 1);
  CHECK(times.take_due(3, 1s + 5ms).size() == 1);
  CHECK(times.take_due(9, 1h).empty());
}

}  // namespace plan_faults_test
