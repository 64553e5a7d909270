// Faults between nodes in virtual time: one of each kind before every message of a run, and pairs of them. Whatever the
// fault, the run ends in time, in one way on all nodes, names what failed, and if it succeeds, it has the right bits.
// Without TROUPE_TESTS_FAULT_SEEDS, only a sample of the messages.
#include "tests/support/doctest.hpp"
#include "tests/support/node_runs.hpp"
#include "tests/support/repeat.hpp"
#include "tests/support/wirings.hpp"

#include "troupe/data/random.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

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

/// One fault of each kind, at each place of three nodes where it differs.
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
    all.push_back({.what = kind::slow, .before = message, .node = a, .other = b, .lasting = 500ms});
  }
  all.push_back({.what = kind::reset_control, .before = message, .node = 0, .other = 2});
  return all;
}

}  // namespace

TEST_CASE("a fault of each kind before each message ends the run in time, in one way, and is named") {
  const auto seeds = fault_seeds();
  const std::uint64_t stride = seeds > 0 ? 1 : 7;
  std::uint64_t runs = 0;
  for (const auto& wiring : all_wirings()) {
    CAPTURE(name_of(wiring));
    const node_runs all{wiring};
    for (std::uint64_t seed = 0; seed < std::max(seeds, std::uint64_t{1}); ++seed) {
      const auto messages = all.run({.seed = seed}).all.messages;
      for (std::uint64_t message = 0; message < messages; message += stride)
        for (const auto& fault : faults_before(message)) {
          all.check({.seed = seed, .faults = {fault}});
          ++runs;
        }
    }
  }
  MESSAGE(runs << " runs");
}

TEST_CASE("two faults at once end the run in time, in one way, and one of them is named") {
  std::vector<node_runs> wirings;
  std::vector<std::uint64_t> messages;
  for (const auto& wiring : all_wirings()) {
    wirings.emplace_back(wiring);
    messages.push_back(wirings.back().run({}).all.messages);
  }
  data::random_stream random{1};
  for (std::uint64_t seed = 0; seed < (fault_seeds() > 0 ? 10'000U : 1'000U); ++seed) {
    const auto which = random.below(wirings.size());
    simulate_nodes_options options{.seed = seed};
    for (int i = 0; i < 2; ++i) {
      const auto possible = faults_before(random.below(messages[which]));
      options.faults.push_back(possible[random.below(possible.size())]);
    }
    CAPTURE(which);
    wirings[which].check(options);
  }
}
