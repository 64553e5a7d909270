// Whole runs over emulated links, with slow workers and few cores: bits stay as they are, and virtual time is what the
// topology file says.
#include "tests/support/doctest.hpp"
#include "tests/support/links.hpp"
#include "tests/support/tiny.hpp"
#include "tests/support/wirings.hpp"

#include "troupe/runtime/node/launcher.hpp"
#include "troupe/runtime/node/simulate_run.hpp"
#include "troupe/runtime/telemetry/metrics.hpp"
#include "troupe/runtime/topology/value.hpp"

#include <ATen/ops/equal.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

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
  const auto book = std::make_shared<remembered>();
  const auto end =
      simulate_run(plan, data, initial_weights(plan, pool), pool, book, {.seed = seed, .computes = computes});
  CHECK(!end.failure);
  outcome_of_run made{.result = book->result, .lines = {}};
  for (const auto& line : book->lines) {
    made.lines.push_back(telemetry::json_line(line));
    made.seconds = line.seconds;
  }
  return made;
}

/// A plan whose gradients take 1 ms, on a fast network.
plan quick(const tiny_options& options) {
  auto made = tiny_plan(options);
  made.file.simulate.gradient = "1ms";
  made.file.simulate.jitter = 0;
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
    const auto in_ports = [](const planned_exchange& each) { return each.nature.host == hosting::ports; };
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
  made.file.simulate.cores = 1;
  CHECK(simulated(made, options.samples, 1).seconds == doctest::Approx(10 * 0.004).epsilon(1e-3));
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
