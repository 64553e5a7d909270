// `troupe simulate` of files with several nodes: the bits and times of a run in one process, emulated links between
// nodes, and the faults of [[fault]], in virtual time.
#include "tests/support/doctest.hpp"
#include "tests/support/links.hpp"
#include "tests/support/node_runs.hpp"
#include "tests/support/quick.hpp"
#include "tests/support/tiny.hpp"
#include "tests/support/wirings.hpp"

#include "troupe/runtime/launch/launcher.hpp"
#include "troupe/runtime/simulation/simulate_run.hpp"
#include "troupe/runtime/telemetry/metrics.hpp"
#include "troupe/runtime/topology/value.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace nodes_of_file_test {

namespace {

using namespace troupe;
using namespace troupe::tests;
using namespace std::chrono_literals;

struct outcome_of_run {
  at::Tensor result;
  std::vector<std::string> lines;
  double seconds{0};
  std::chrono::nanoseconds took{0};  ///< Virtual time until the end, also of a run that fails.
  run_end end;
};

outcome_of_run simulated(const plan& plan, std::int64_t samples, simulation_options how = {.seed = 1}) {
  models::buffer_pool pool;
  const auto journal = std::make_shared<remembered>();
  outcome_of_run made;
  how.clock = std::make_shared<std::chrono::nanoseconds>(0);
  made.end = simulate_run(plan, tiny_data(samples), initial_weights(plan, pool), pool, journal, how);
  made.took = *how.clock;
  made.result = journal->result;
  for (const auto& line : journal->lines) {
    made.lines.push_back(telemetry::json_line(line));
    made.seconds = line.seconds;
  }
  return made;
}

/// Two workers on two nodes that send their gradients in halves, both ways.
tiny_options two_nodes(std::uint64_t steps = 10) {
  return {.workers = 2,
          .settings = {{"route", std::string("direct")}},
          .steps = steps,
          .evaluate_every = steps,
          .nodes = {1, 1}};
}

plan with_faults(plan of, std::vector<topology::fault_settings> faults) {
  of.file.faults = std::move(faults);
  of.faults = plan_faults(of);
  return of;
}

bool says(const outcome_of_run& run, const std::string& words) {
  CAPTURE(run.end.failure.value_or("it did not fail"));
  CHECK(run.end.status() == 1);
  return run.end.failure.value_or("").find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("simulated nodes have the bits and the times of one process") {
  for (const auto& options : deterministic_wirings()) {
    CAPTURE(name_of(options));
    const auto one = simulated(quick(options), options.samples);
    for (std::uint64_t seed = 1; seed <= 2; ++seed) {
      const auto several = simulated(quick(over_three_nodes(options)), options.samples, {.seed = seed});
      CHECK(!several.end.failure);
      CHECK(several.result.equal(one.result));
      CHECK(several.seconds == doctest::Approx(one.seconds).epsilon(1e-3));
      CHECK(several.lines.size() == one.lines.size());
    }
  }
}

TEST_CASE("simulated nodes repeat themselves under the same seed") {
  auto all = deterministic_wirings();
  const auto& asynchronous = asynchronous_wirings();
  all.insert(all.end(), asynchronous.begin(), asynchronous.end());
  for (const auto& options : all) {
    CAPTURE(name_of(options));
    auto made = quick(over_three_nodes(options));
    made.file.simulate.jitter = 0.5;
    made.file.simulate.cores = 1;
    const auto in_ports = [](const planned_exchange& each) { return each.nature.carried_by == carrier::ports; };
    if (std::all_of(made.exchanges.begin(), made.exchanges.end(), in_ports))
      testing::set_links(
          made, {testing::at("*", {.bandwidth = topology::parse_rate("10kB/s"), .latency = 2ms, .jitter = 3ms})});
    const auto first = simulated(made, options.samples), again = simulated(made, options.samples);
    CHECK(!first.end.failure);
    CHECK(first.result.equal(again.result));
    CHECK(first.lines == again.lines);
    CHECK(first.end.events == again.end.events);
  }
}

TEST_CASE("links between simulated nodes take the time that the file says, and report what they carried") {
  auto made = quick(two_nodes());
  CHECK(simulated(made, 60).seconds == doctest::Approx(10 * 0.001).epsilon(1e-3));
  testing::set_links(made, {testing::between("alpha", "beta", {.latency = 5ms})});
  CHECK(simulated(made, 60).seconds == doctest::Approx(10 * (0.001 + 2 * 0.005)).epsilon(1e-3));
  testing::set_links(made, {testing::at("alpha", {.bandwidth = topology::parse_rate("1kB/s")})});
  const auto run = simulated(made, 60);
  const auto half = 0.5e-3 * sizeof(float) * static_cast<double>(made.layout.parameter_end);
  CHECK(run.seconds == doctest::Approx(10 * (0.001 + 2 * half)).epsilon(1e-3));
  REQUIRE(run.end.links.size() == 2);
  for (const auto& used : run.end.links) {
    CHECK(used.name == "alpha");
    CHECK(used.messages == 2 * 10);
  }
}

TEST_CASE("without computing, simulated nodes take the same time and learn nothing") {
  const auto made = quick(two_nodes());
  const auto real = simulated(made, 60), none = simulated(made, 60, {.seed = 1, .computes = false});
  CHECK(none.seconds == real.seconds);
  CHECK(!none.result.defined());
}

TEST_CASE("a simulation of several nodes stops after a number of messages, or by a signal") {
  const auto made = quick(two_nodes(100));
  const auto all = simulated(made, 60);
  const auto part = simulated(made, 60, {.seed = 1, .stop_after = all.end.events / 2});
  CHECK(part.end.events == all.end.events / 2);
  CHECK(part.end.status() == 0);
  CHECK(part.lines.size() < all.lines.size());
  const std::atomic<int> signal{SIGINT};
  CHECK(simulated(made, 60, {.seed = 1, .signal = &signal}).end.status() == 130);
}

TEST_CASE("a node that is killed in a simulation is named at once") {
  for (const auto* node : {"alpha", "beta"}) {
    CAPTURE(node);
    const auto made = with_faults(quick(two_nodes(100)), {{.kind = "kill", .at = "step 40", .node = node}});
    const auto run = simulated(made, 60);
    CHECK(says(run, std::string("node ") + node + " is lost: it was killed or disconnected"));
    CHECK(run.took >= 40ms);
    CHECK(run.took < 3s);
    CHECK(simulated(made, 60).lines == run.lines);
  }
}

TEST_CASE("a node that is frozen in a simulation is lost after run.silence of virtual time") {
  auto made = with_faults(quick(two_nodes(100)), {{.kind = "freeze", .at = "20ms", .node = "beta"}});
  made.file.run.silence = 4s;
  const auto run = simulated(made, 60);
  CHECK(says(run, "node beta is lost: it was silent for 4000 ms (run.silence)"));
  CHECK(says(run, "rank 0 is waiting for rank 1 at step 2"));  // of 20 steps
  CHECK(run.took >= 20ms + 4s * 7 / 8);
  CHECK(run.took < 20ms + 4s + 3s);
}

TEST_CASE("faults that last less than run.silence cost time and no bit") {
  const auto whole = simulated(quick(two_nodes(100)), 60);
  for (const auto& fault : std::vector<topology::fault_settings>{
           {.kind = "freeze", .at = "step 40", .node = "beta", .lasts = 2s},
           {.kind = "partition", .at = "step 40", .between = {"alpha", "beta"}, .lasts = 2s},
           {.kind = "partition", .at = "40ms", .node = "alpha", .lasts = 2s}}) {
    CAPTURE(fault.kind);
    const auto run = simulated(with_faults(quick(two_nodes(100)), {fault}), 60);
    CHECK(!run.end.failure);
    CHECK(run.result.equal(whole.result));
    CHECK(run.seconds == doctest::Approx(whole.seconds + 2).epsilon(1e-2));
  }
}

TEST_CASE("nodes that cannot reach each other end the run, and a slow link delays each message while it lasts") {
  const auto cut = with_faults(quick(two_nodes(100)), {{.kind = "partition", .at = "step 40", .node = "beta"}});
  CHECK(says(simulated(cut, 60), "beta"));
  const auto slow =
      simulated(with_faults(quick(two_nodes(100)),
                            {{.kind = "slow", .at = "step 50", .between = {"alpha", "beta"}, .latency = 5ms}}),
                60);
  CHECK(!slow.end.failure);
  CHECK(slow.seconds == doctest::Approx(100 * 0.001 + 50 * 2 * 0.005).epsilon(2e-2));
  const auto for_some_time =
      simulated(with_faults(quick(two_nodes(100)),
                            {{.kind = "slow", .at = "step 50", .node = "beta", .lasts = 110ms, .latency = 5ms}}),
                60);
  CHECK(for_some_time.seconds == doctest::Approx(100 * 0.001 + 10 * 2 * 0.005).epsilon(5e-2));
}

TEST_CASE("a simulation in which no node is left ends") {
  const auto made = with_faults(quick(two_nodes(100)), {{.kind = "kill", .at = "0s", .node = "alpha"},
                                                        {.kind = "freeze", .at = "0s", .node = "beta"}});
  CHECK(says(simulated(made, 60), "no node is left"));
}

}  // namespace nodes_of_file_test
