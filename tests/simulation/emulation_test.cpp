// Whole runs over emulated links, with slow workers and few cores: the bits do not change, and virtual time follows the
// topology file.
#include "tests/support/doctest.hpp"
#include "tests/support/links.hpp"
#include "tests/support/quick.hpp"
#include "tests/support/tiny.hpp"
#include "tests/support/wirings.hpp"

#include "troupe/runtime/launch/launcher.hpp"
#include "troupe/runtime/simulation/simulate_run.hpp"
#include "troupe/runtime/telemetry/metrics.hpp"
#include "troupe/runtime/topology/value.hpp"

#include <ATen/ops/equal.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace emulation_test {

namespace {

using namespace troupe;
using namespace troupe::tests;
using namespace std::chrono_literals;

struct outcome_of_run {
  at::Tensor result;
  std::vector<std::string> lines;
  double seconds{0};
};

outcome_of_run simulated(const plan& plan, std::int64_t samples, std::uint64_t seed, bool computes = true) {
  const auto data = tiny_data(samples);
  models::buffer_pool pool;
  const auto journal = std::make_shared<remembered>();
  const auto end =
      simulate_run(plan, data, initial_weights(plan, pool), pool, journal, {.seed = seed, .computes = computes});
  CHECK(!end.failure);
  outcome_of_run made{.result = journal->result, .lines = {}};
  for (const auto& line : journal->lines) {
    made.lines.push_back(telemetry::json_line(line));
    made.seconds = line.seconds;
  }
  return made;
}

/// The same on a slow and irregular network, with a slow worker and one core.
plan slow(const tiny_options& options) {
  auto made = quick(options);
  made.file.simulate.jitter = 0.5;
  made.file.simulate.cores = 1;
  made.file.simulate.evaluate = 3ms;
  made.file.workers.slowdown = std::vector<double>(options.workers, 1);
  made.file.workers.slowdown.back() = 4;
  const auto slow = topology::parse_rate("10kB/s");
  testing::set_links(made, {testing::at("*", {.bandwidth = slow, .latency = 2ms, .jitter = 3ms, .loss = 0.1}),
                            testing::between("w0", "w1", {.latency = 20ms})});
  return made;
}

}  // namespace

TEST_CASE("emulation changes no bit of a deterministic run, and one seed gives one run") {
  for (const auto& options : deterministic_wirings()) {
    CAPTURE(name_of(options));
    const auto fast = simulated(quick(options), options.samples, 1),
               first = simulated(slow(options), options.samples, 1);
    CHECK(at::equal(first.result, fast.result));
    CHECK(first.seconds > fast.seconds);
    CHECK(simulated(slow(options), options.samples, 1).lines == first.lines);
    CHECK(at::equal(simulated(slow(options), options.samples, 2).result, fast.result));
  }
}

TEST_CASE("an asynchronous run repeats itself under the same seed") {
  for (const auto& options : asynchronous_wirings()) {
    const auto exchanges = tiny_plan(options).exchanges;
    const auto in_ports = [](const planned_exchange& each) { return each.nature.carried_by == carrier::ports; };
    if (!std::all_of(exchanges.begin(), exchanges.end(), in_ports)) continue;  // links do not apply to shared memory
    CAPTURE(name_of(options));
    const auto first = simulated(slow(options), options.samples, 1),
               again = simulated(slow(options), options.samples, 1);
    CHECK(at::equal(first.result, again.result));
    CHECK(first.lines == again.lines);
  }
}

TEST_CASE("without computing, the same time passes, and nothing is learnt") {
  for (const auto& options : deterministic_wirings()) {
    CAPTURE(name_of(options));
    const auto real = simulated(quick(options), options.samples, 1);
    const auto none = simulated(quick(options), options.samples, 1, false);
    CHECK(none.seconds == real.seconds);
    CHECK(!none.result.defined());
    CHECK(none.lines.size() == real.lines.size());
    CHECK(none.lines.back().find("\"train_loss\":null") != std::string::npos);
    CHECK(none.lines.back().find("\"val_loss\":null") != std::string::npos);
    CHECK(none.lines.back().find("\"val_accuracy\":null") != std::string::npos);
  }
}

TEST_CASE("virtual time is the sum of what the file says") {
  // Each of two workers sends its gradient of 15 floats in halves: one message each way, twice per step.
  tiny_options options{.workers = 2, .settings = {{"route", std::string("direct")}}, .steps = 10, .evaluate_every = 10};
  auto made = quick(options);
  const auto alone = simulated(made, options.samples, 1).seconds;
  CHECK(alone == doctest::Approx(10 * 0.001).epsilon(1e-3));
  testing::set_links(made, {testing::at("*", {.latency = 5ms})});
  CHECK(simulated(made, options.samples, 1).seconds == doctest::Approx(10 * (0.001 + 2 * 0.005)).epsilon(1e-3));
  testing::set_links(made, {});
  made.file.workers.slowdown = {1, 3};
  CHECK(simulated(made, options.samples, 1).seconds == doctest::Approx(10 * 0.003).epsilon(1e-3));
  // Both gradients take 2 ms. Then the slow worker idles for another 2 ms.
  made.file.simulate.cores = 1;
  CHECK(simulated(made, options.samples, 1).seconds == doctest::Approx(10 * 0.004).epsilon(1e-3));
}

TEST_CASE("parts leave an interface in the order in which the member sends them") {
  // Each of four workers sends its small gradient whole to the three others at the same time. Every worker begins with
  // its successor, so that no interface ever waits for another one.
  tiny_options options{.workers = 4, .settings = {{"route", std::string("direct")}}, .steps = 10, .evaluate_every = 10};
  auto made = quick(options);
  testing::set_links(made, {testing::at("*", {.bandwidth = topology::parse_rate("1kB/s")})});
  const auto whole = 1e-3 * sizeof(float) * static_cast<double>(made.layout.parameter_end);
  for (std::uint64_t seed = 1; seed <= 5; ++seed)
    CHECK(simulated(made, options.samples, seed).seconds == doctest::Approx(10 * (0.001 + 3 * whole)).epsilon(1e-3));
}

TEST_CASE("with backup workers, a run does not wait for a worker that is always slow") {
  tiny_options options{.workers = 4,
                       .exchange = "parameter_server",
                       .loop = {"gradient", "exchange"},
                       .steps = 40,
                       .evaluate_every = 10};
  options.settings = {{"apply", std::string("first")}, {"first", std::int64_t{3}}, {"shards", std::int64_t{1}}};
  auto made = quick(options);
  made.file.workers.slowdown = {1, 1, 1, 8};
  const auto slow = simulated(made, options.samples, 1);
  // The slow worker computes one gradient after the other and is late with each. The last begins just before the last
  // update.
  CHECK(slow.seconds == doctest::Approx(0.048).epsilon(0.01));
  CHECK(slow.lines.back().find("\"updates\":40,") != std::string::npos);
  CHECK(slow.lines.back().find("\"gradients_refused\":6,") != std::string::npos);
  CHECK(simulated(made, options.samples, 1).lines == slow.lines);
}

TEST_CASE("buckets leave while the gradient is computed, the last one at its end") {
  // One bucket for each parameter, halves of which are sent both ways, twice. Only the last bucket is not hidden.
  const auto split = [](const char* send) {
    return tiny_options{.workers = 2,
                        .settings = {{"route", std::string("direct")}, {"send", std::string(send)}},
                        .steps = 10,
                        .evaluate_every = 10};
  };
  for (const auto* send : {"whole", "parameter"}) {
    CAPTURE(send);
    auto made = quick(split(send));
    made.file.simulate.gradient = "1s";
    testing::set_links(made, {testing::at("*", {.latency = 500ms})});
    for (const bool computes : {true, false})
      CHECK(simulated(made, 60, 1, computes).seconds == doctest::Approx(10 * (1 + 2 * 0.5)).epsilon(1e-3));
    // On one core, gradients that overlap take twice as long. If each worker folds half of a gradient, both receive
    // their answers at the same time. The parameters are too small to be divided: worker 0 folds them, receives its
    // answer 0.5 s before worker 1, and has the core to itself until then.
    made.file.simulate.cores = 1;
    const auto expected = std::string{send} == "whole" ? 10 * (2 + 2 * 0.5) : 2 + 9 * (0.5 + 2) + 2 * 0.5;
    CHECK(simulated(made, 60, 1).seconds == doctest::Approx(expected).epsilon(1e-3));
  }
}

TEST_CASE("buckets hide an exchange behind backward as far as they are ready") {
  // The bias and the weights have 16 floats each with their padding, which worker 0 folds. The bias is ready after a
  // third of the gradient and half of the rest. Worker 1 sends it, then the weights, and receives their mean at the
  // end.
  tiny_options options{.workers = 2,
                       .settings = {{"route", std::string("direct")}, {"send", std::string("parameter")}},
                       .steps = 1,
                       .evaluate_every = 1};
  auto made = quick(options);
  made.file.simulate.gradient = "1s";
  testing::set_links(made, {testing::at("*", {.bandwidth = topology::parse_rate("4B/s")})});
  REQUIRE(made.layout.parameter_end == 32);
  CHECK(simulated(made, 60, 1).seconds == doctest::Approx(2.0 / 3 + 3 * 16).epsilon(1e-4));
}

TEST_CASE("synchronised norms wait in mid-gradient") {
  // Each of two norms waits once in the forward pass and once in the backward pass, for one message each way; then
  // the gradient takes two.
  auto made = quick(
      {.norms = true, .workers = 2, .settings = {{"route", std::string("direct")}}, .steps = 10, .evaluate_every = 10});
  testing::set_links(made, {testing::at("*", {.latency = 5ms})});
  CHECK(simulated(made, 60, 1).seconds == doctest::Approx(10 * (0.001 + 4 * 0.005 + 2 * 0.005)).epsilon(1e-3));
}

TEST_CASE("a run that would last longer than a clock can count is ended with the reason") {
  tiny_options options{.workers = 2, .exchange = "", .steps = 400, .evaluate_every = 1};
  auto made = quick(options);
  made.file.simulate.gradient = "9000h";
  made.file.run.timeout = std::chrono::hours{10'000};
  models::buffer_pool pool;
  const auto simulating = [&] {
    simulate_run(made, tiny_data(options.samples), initial_weights(made, pool), pool, std::make_shared<remembered>(),
                 {.seed = 1});
  };
  CHECK_THROWS_WITH(simulating(), doctest::Contains("longer than a hundred years of virtual time"));
}

}  // namespace emulation_test
