// Faults between nodes in virtual time: one of each kind before every message of a run, and pairs of them. Whatever the
// fault, the run ends in time, has the same outcome on all nodes, names what failed, and has the right bits if it
// succeeds. Without TROUPE_TESTS_FAULT_SEEDS, only a sample of the messages is tested. tests/simulation/faults.py
// divides the cases among processes.
#include "tests/support/doctest.hpp"
#include "tests/support/node_runs.hpp"
#include "tests/support/repeat.hpp"
#include "tests/support/shard.hpp"
#include "tests/support/wirings.hpp"

#include "troupe/data/random/random.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace faults_test {

namespace {

using namespace troupe;
using namespace troupe::tests;
using namespace std::chrono_literals;
using kind = node_fault::kind;

/// Two steps, evaluated at the end.
tiny_options short_run(tiny_options wiring) {
  wiring = over_three_nodes(wiring);
  wiring.steps = 2;
  wiring.evaluate_every = 2;
  for (auto& exchange : wiring.exchanges) exchange.every = {1, false};
  wiring.every = 1;
  return wiring;
}

std::vector<tiny_options> all_wirings() {
  auto all = deterministic_wirings();
  const auto& asynchronous = asynchronous_wirings();
  all.insert(all.end(), asynchronous.begin(), asynchronous.end());
  for (auto& wiring : all) wiring = short_run(wiring);
  return all;
}

/// One fault of each kind, at each place among three nodes where its effect differs.
std::vector<node_fault> faults_before(std::uint64_t message) {
  std::vector<node_fault> all;
  for (const std::uint32_t node : {0U, 1U, 2U}) {
    all.push_back({.what = kind::kill, .before = message, .node = node});
    all.push_back({.what = kind::freeze, .before = message, .node = node});
  }
  all.push_back({.what = kind::freeze, .before = message, .node = 1, .lasting = 2s});  // shorter than the silence
  all.push_back({.what = kind::interrupt, .before = message, .node = 2});
  for (const auto& [a, b] : {std::pair{0U, 1U}, {1U, 2U}}) {
    all.push_back({.what = kind::cut, .before = message, .node = a, .other = b});
    all.push_back({.what = kind::reset_tensors, .before = message, .node = a, .other = b});
    all.push_back({.what = kind::slow, .before = message, .node = a, .other = b, .delay = 500ms});
  }
  all.push_back({.what = kind::reset_control, .before = message, .node = 0, .other = 2});
  return all;
}

std::vector<node_runs> runs_of(const std::vector<tiny_options>& wirings) {
  return {wirings.begin(), wirings.end()};
}

}  // namespace

TEST_CASE("a fault of each kind before each message ends the run in time, in one way, and is named") {
  const auto seeds = fault_seeds();
  const std::uint64_t stride = seeds > 0 ? 1 : 7, last = std::max(seeds, std::uint64_t{1});
  const auto all = all_wirings();
  const auto wirings = runs_of(all);
  shard mine;
  progress_lines progress;
  std::uint64_t runs = 0;
  // Seeds in the outer loop, so that a test that is cut short has tried all wirings.
  for (std::uint64_t seed = 0; seed < last; ++seed)
    for (std::size_t wiring = 0; wiring < wirings.size(); ++wiring) {
      if (!mine.takes_next()) continue;
      CAPTURE(name_of(all[wiring]));
      const auto messages = wirings[wiring].run({.seed = seed}).all.messages;
      for (std::uint64_t message = 0; message < messages; message += stride)
        for (const auto& fault : faults_before(message)) {
          wirings[wiring].check({.seed = seed, .faults = {fault}});
          ++runs;
        }
      progress.show("seed " + std::to_string(seed) + " of " + std::to_string(last) + ", wiring " +
                    std::to_string(wiring) + " of " + std::to_string(wirings.size()) + ": " + std::to_string(runs) +
                    " runs");
    }
  MESSAGE(runs << " runs");
}

TEST_CASE("two faults at once end the run in time, in one way, and one of them is named") {
  const auto all = all_wirings();
  const auto wirings = runs_of(all);
  std::vector<std::uint64_t> messages;
  for (const auto& each : wirings) messages.push_back(each.run({}).all.messages);
  const std::uint64_t pairs = fault_seeds() > 0 ? 10'000 : 1'000;
  data::random_stream random{1};
  shard mine;
  progress_lines progress;
  std::uint64_t runs = 0;
  for (std::uint64_t seed = 0; seed < pairs; ++seed) {
    const auto which = random.below(wirings.size());
    simulation_options options{.seed = seed};
    for (int i = 0; i < 2; ++i) {
      const auto possible = faults_before(random.below(messages[which]));
      options.faults.push_back(possible[random.below(possible.size())]);
    }
    if (!mine.takes_next()) continue;
    CAPTURE(name_of(all[which]));
    wirings[which].check(options);
    progress.show("pair " + std::to_string(seed) + " of " + std::to_string(pairs));
    ++runs;
  }
  MESSAGE(runs << " runs of pairs");
}

}  // namespace faults_test
