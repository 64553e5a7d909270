// Whole runs whose workers compute on a fake device. Whatever is delayed or stays on the device, the result equals that
// of the CPU, bit for bit, because the fake device sums in the same order as the CPU.
#include "tests/support/doctest.hpp"
#include "tests/support/fake_device.hpp"
#include "tests/support/wirings.hpp"

#include "troupe/algorithms/exchange/around/buckets.hpp"
#include "troupe/files/error.hpp"
#include "troupe/runtime/plan/derive.hpp"
#include "troupe/runtime/simulation/simulation.hpp"

#include <ATen/ops/isfinite.h>
#include <caf/all.hpp>

#include <map>

namespace device_test {

namespace {

using namespace troupe;
using testing::fake_accelerator;

struct ran {
  run_end end;
  std::shared_ptr<tests::remembered> journal = std::make_shared<tests::remembered>();
  std::map<std::uint32_t, std::shared_ptr<fake_accelerator>> devices;
};

ran simulate_plan(const plan& plan, std::int64_t samples, std::uint64_t seed, bool on_devices) {
  ran run;
  simulation_options options{.seed = seed};
  if (on_devices)
    options.open_device = [&](std::uint32_t rank, c10::Device) {
      return run.devices[rank] = std::make_shared<fake_accelerator>(seed * 100 + rank);
    };
  models::buffer_pool pool;
  run.end = simulate(plan, tests::tiny_data(samples), initial_weights(plan, pool), pool, run.journal, options);
  return run;
}

void check_same(const ran& there, const ran& here) {
  REQUIRE_MESSAGE(!there.end.failure, there.end.failure.value_or(""));
  REQUIRE(there.journal->result.equal(here.journal->result));
  REQUIRE(there.journal->lines.size() == here.journal->lines.size());
  for (std::size_t i = 0; i < here.journal->lines.size(); ++i) {
    CHECK(there.journal->lines[i].train_loss == here.journal->lines[i].train_loss);
    CHECK(there.journal->lines[i].val_loss == here.journal->lines[i].val_loss);
    CHECK(there.journal->lines[i].bytes_sent == here.journal->lines[i].bytes_sent);
  }
}

}  // namespace

TEST_CASE("every wiring gives the bits of the CPU where workers compute on devices") {
  for (const auto& wiring : tests::deterministic_wirings()) {
    CAPTURE(tests::name_of(wiring));
    const auto plan = tests::tiny_plan(wiring);
    const auto here = simulate_plan(plan, wiring.samples, 0, false);
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      CAPTURE(seed);
      check_same(simulate_plan(plan, wiring.samples, seed, true), here);
    }
  }
}

TEST_CASE("NCCL, whose calls wait for each other, is refused by name") {
  for (const bool on_devices : {false, true}) {
    const tests::tiny_options wiring;  // an all-reduce
    auto plan = tests::tiny_plan(wiring);
    plan.exchanges.front().nature.carried_by = carrier::device_library;
    std::string said;
    try {
      simulate_plan(plan, wiring.samples, 0, on_devices);
    } catch (const input_error& refusal) {
      said = refusal.what();
    }
    CHECK(said.find("engine = \"nccl\" cannot be simulated or replayed") != std::string::npos);
  }
}

TEST_CASE("asynchronous wirings end well on devices") {
  for (const auto& wiring : tests::asynchronous_wirings()) {
    CAPTURE(tests::name_of(wiring));
    const auto plan = tests::tiny_plan(wiring);
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      CAPTURE(seed);
      const auto run = simulate_plan(plan, wiring.samples, seed, true);
      REQUIRE_MESSAGE(!run.end.failure, run.end.failure.value_or(""));
      CHECK(at::isfinite(run.journal->result).all().item<bool>());
    }
  }
}

TEST_CASE("gradients that leave in buckets come to the host one by one") {
  auto plan = tests::tiny_plan({.workers = 3});
  const auto here = simulate_plan(plan, 60, 0, false);
  plan.exchanges.front().buckets = {{16, 16}, {0, 16}};
  plan.exchanges.front().wrappers = {make_bucketed_member};
  plan.traffic = plan_traffic(plan);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    const auto there = simulate_plan(plan, 60, seed, true);
    REQUIRE_FALSE(there.end.failure);
    REQUIRE(there.journal->result.equal(here.journal->result));
    CHECK(there.devices.at(1)->made().later == 10 * 2);  // steps × buckets
    CHECK(there.devices.at(1)->made().downloads == 0);   // only worker 0 provides snapshots
  }
}

TEST_CASE("nothing leaves the device that nobody on the host needs") {
  const auto run = simulate_plan(tests::tiny_plan({.workers = 1, .exchange = {}, .steps = 10}), 60, 1, true);
  REQUIRE_FALSE(run.end.failure);
  const auto made = run.devices.at(0)->made();
  CHECK(made.uploads == 1);         // the initial weights
  CHECK(made.downloads == 2);       // evaluated after 5 steps and after 10
  CHECK(made.ahead == 2 * 10 + 2);  // inputs and targets of each step, and of one batch that was prepared in vain
}

TEST_CASE("an interrupted run brings home what it has") {
  const auto plan = tests::tiny_plan({.workers = 1, .exchange = {}, .steps = 40, .evaluate_every = 40});
  for (std::uint64_t event = 10; event < 60; event += 5) {
    CAPTURE(event);
    ran run;
    simulation_options options{.seed = event, .after_event = tests::interrupt_at(event)};
    options.open_device = [&](std::uint32_t rank, c10::Device) {
      return run.devices[rank] = std::make_shared<fake_accelerator>(rank);
    };
    models::buffer_pool pool;
    run.end = simulate(plan, tests::tiny_data(), initial_weights(plan, pool), pool, run.journal, options);
    REQUIRE_FALSE(run.end.failure);
    REQUIRE(run.journal->result.defined());
    CHECK(at::isfinite(run.journal->result).all().item<bool>());
  }
}

}  // namespace device_test
