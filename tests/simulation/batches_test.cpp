// Epochs that keep their last, smaller batch, and epochs that are padded: every wiring, in any order of messages, on
// devices, and against one worker with the whole batch.
#include "tests/support/doctest.hpp"
#include "tests/support/fake_device.hpp"
#include "tests/support/repeat.hpp"
#include "tests/support/wirings.hpp"

#include "troupe/runtime/simulation/simulation.hpp"

#include <ATen/ops/allclose.h>
#include <ATen/ops/isfinite.h>

#include <memory>
#include <vector>

namespace batches_test {

namespace {

using namespace troupe;
using tests::remembered;
using tests::tiny_options;

struct ran {
  run_end end;
  std::shared_ptr<remembered> journal = std::make_shared<remembered>();
};

ran simulate_uneven(const tiny_options& options, std::uint64_t seed, bool on_devices = false) {
  ran run;
  const auto plan = tests::tiny_plan(options);
  simulation_options simulation{.seed = seed};
  if (on_devices)
    simulation.open_device = [&](std::uint32_t rank, c10::Device) {
      return std::make_shared<testing::fake_accelerator>(seed * 100 + rank);
    };
  models::buffer_pool pool;
  run.end =
      simulate(plan, tests::tiny_data(options.samples), initial_weights(plan, pool), pool, run.journal, simulation);
  return run;
}

/// Returns `options` with 19 samples. Padded to the next multiple of 3, 4 or 5 workers, they give each worker a last
/// batch of fewer than 3 samples.
tiny_options uneven(tiny_options options) {
  options.samples = 19;
  options.batch_size = 3;
  options.keeps_last = options.pads = true;
  return options;
}

/// Returns the number of samples of which a worker computes gradients in ten steps.
std::int64_t samples_seen(const tiny_options& options) {
  const auto plan = tests::tiny_plan(options);
  std::int64_t sum = 0;
  for (std::uint64_t step = 0; step < options.steps; ++step) sum += data::batch_size_at(plan.sampling, step);
  return sum;
}

}  // namespace

TEST_CASE("uneven epochs give the same bits under every schedule, and on devices") {
  for (const auto& wiring : tests::deterministic_wirings()) {
    CAPTURE(name_of(wiring));
    const auto options = uneven(wiring);
    const auto first = simulate_uneven(options, 0);
    REQUIRE_FALSE(first.end.failure);
    CHECK(samples_seen(options) < 10 * options.batch_size);
    for (std::uint64_t seed = 1; seed < tests::repeat(5, 10); ++seed) {
      CAPTURE(seed);
      for (const bool on_devices : {false, true}) {
        const auto other = simulate_uneven(options, seed, on_devices);
        REQUIRE_FALSE(other.end.failure);
        CHECK(other.journal->result.equal(first.journal->result));
        REQUIRE(other.journal->lines.size() == first.journal->lines.size());
        for (std::size_t i = 0; i < first.journal->lines.size(); ++i) {
          CHECK(other.journal->lines[i].train_loss == first.journal->lines[i].train_loss);
          CHECK(other.journal->lines[i].train_accuracy == first.journal->lines[i].train_accuracy);
        }
      }
    }
  }
}

TEST_CASE("asynchronous wirings end well with uneven epochs, on devices too") {
  for (const auto& wiring : tests::asynchronous_wirings()) {
    CAPTURE(name_of(wiring));
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
      CAPTURE(seed);
      const auto run = simulate_uneven(uneven(wiring), seed, seed % 2 == 1);
      REQUIRE_MESSAGE(!run.end.failure, run.end.failure.value_or(""));
      CHECK(at::isfinite(run.journal->result).all().item<bool>());
      CHECK(run.journal->lines.back().step == 10);
    }
  }
}

// If n divides the number of samples, n batches of b samples equal one batch of n·b, also at the end of an epoch.
TEST_CASE("workers that keep their last batches are one worker that keeps that of all") {
  const tiny_options one{
      .workers = 1, .exchange = "", .samples = 24, .batch_size = 15, .keeps_last = true};  // 15, 9, 15, 9 …
  const auto expected = simulate_uneven(one, 0);
  REQUIRE_FALSE(expected.end.failure);
  for (const auto& route : {"direct", "ring", "chain"}) {
    for (const std::int64_t micro_batches : {1, 5}) {
      CAPTURE(route);
      CAPTURE(micro_batches);
      const auto found = simulate_uneven({.workers = 3,
                                          .settings = {{"route", std::string{route}}},
                                          .samples = 24,
                                          .batch_size = 5,
                                          .keeps_last = true,
                                          .micro_batches = micro_batches},
                                         1);
      REQUIRE_FALSE(found.end.failure);
      CHECK(at::allclose(found.journal->result, expected.journal->result, 1e-5, 1e-6));
      const auto &lines = found.journal->lines, &wanted = expected.journal->lines;
      REQUIRE(lines.size() == wanted.size());
      for (std::size_t i = 0; i < lines.size(); ++i) {
        CHECK(lines[i].step == wanted[i].step);
        CHECK(lines[i].train_accuracy == wanted[i].train_accuracy);
        CHECK(lines[i].train_loss.value_or(0) == doctest::Approx(wanted[i].train_loss.value_or(0)).epsilon(1e-5));
      }
    }
  }
  // If the last batch is dropped, the result differs.
  auto dropped = one;
  dropped.keeps_last = false;
  CHECK_FALSE(at::allclose(simulate_uneven(dropped, 0).journal->result, expected.journal->result, 1e-5, 1e-6));
}

TEST_CASE("synchronised norms count the passes of uneven steps, in micro-batches too") {
  // 27 samples per worker: batches of 8 in four parts; the last batch, of 3, in two.
  const tiny_options three{
      .norms = true, .workers = 3, .samples = 81, .batch_size = 8, .keeps_last = true, .micro_batches = 4};
  const auto first = simulate_uneven(three, 0);
  REQUIRE_MESSAGE(!first.end.failure, first.end.failure.value_or(""));
  for (std::uint64_t seed = 1; seed < tests::repeat(8, 20); ++seed) {
    const auto other = simulate_uneven(three, seed, seed % 2 == 1);
    REQUIRE_MESSAGE(!other.end.failure, other.end.failure.value_or(""));
    CHECK(other.journal->result.equal(first.journal->result));
  }
  // Each batch whole: with norms over all workers, three workers equal one.
  auto whole = three;
  whole.micro_batches = 1;
  auto one = whole;
  one.workers = 1;
  one.exchange = "";
  one.batch_size = 24;
  const auto expected = simulate_uneven(one, 0), found = simulate_uneven(whole, 3);
  REQUIRE_FALSE(found.end.failure);
  CHECK(at::allclose(found.journal->result, expected.journal->result, 1e-4, 1e-5));
}

}  // namespace batches_test
