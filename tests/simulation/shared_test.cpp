// Workers on one memory. The job of a lane runs without interruption here, so these runs interleave sequences of steps,
// but never the reads and writes within one; tests with threads cover those
// (tests/unit/actors/replay/shared_memory_test.cpp, tests/unit/models).
#include "tests/support/doctest.hpp"
#include "tests/support/repeat.hpp"
#include "tests/support/tiny.hpp"
#include "tests/support/wirings.hpp"

#include "troupe/runtime/simulation/simulation.hpp"

#include <ATen/ops/isfinite.h>

#include <set>
#include <vector>

namespace shared_test {

namespace {

using namespace troupe;

setting_values shared(const std::string& how = {}) {
  return {{"lock", how == "lock"},
          {"atomic", how == "atomic"},
          {"local_steps", std::int64_t{how == "local" ? 3 : 1}},
          {"replicas", std::string{"machine"}}};
}

tests::tiny_options on_one_memory(std::uint32_t workers, const std::string& how = {}) {
  return {.workers = workers, .exchange = "shared", .settings = shared(how), .loop = {"gradient", "apply"}};
}

std::shared_ptr<tests::remembered> simulated(const plan& plan, const simulation_options& options) {
  auto journal = std::make_shared<tests::remembered>();
  models::buffer_pool pool;
  const auto end = simulate(plan, tests::tiny_data(), initial_weights(plan, pool), pool, journal, options);
  REQUIRE_MESSAGE(!end.failure, end.failure.value_or(""));
  return journal;
}

}  // namespace

TEST_CASE("one worker on a memory is the plain loop, bit for bit, however the memory is written") {
  for (const auto normed : {false, true}) {
    const auto plain = simulated(tests::tiny_plan({.normed = normed, .workers = 1, .exchange = {}}), {.seed = 0});
    for (const auto* how : {"", "atomic", "lock", "local"}) {
      CAPTURE(how);
      auto options = on_one_memory(1, how);
      options.normed = normed;
      const auto journal = simulated(tests::tiny_plan(options), {.seed = 3});
      CHECK(journal->result.equal(plain->result));
      CHECK(journal->lines.back().train_loss == plain->lines.back().train_loss);
      CHECK(journal->lines.back().staleness_max == 0);
      CHECK(journal->lines.back().bytes_sent == 0);
    }
  }
}

TEST_CASE("several workers make all of their steps on one memory, each counted once, in whatever order") {
  for (const auto* how : {"", "atomic", "lock", "local"}) {
    CAPTURE(how);
    const auto plan = tests::tiny_plan(on_one_memory(3, how));
    std::set<float> results;
    for (std::uint64_t seed = 0; seed < tests::repeat(60, 200); ++seed) {
      CAPTURE(seed);
      const auto journal = simulated(plan, {.seed = seed});
      const auto& end = journal->lines.back();
      CHECK(end.step == 10);
      CHECK(end.updates == 30);
      std::uint64_t counted = 0;
      for (const auto each : end.staleness_counts) counted += each;
      CHECK(counted == 30);
      CHECK(at::isfinite(journal->result).all().item<bool>());
      CHECK(*end.val_accuracy > 0.5);
      results.insert(journal->result[0].item<float>());
    }
    CHECK(results.size() > 20);  // the schedules differ
  }
}

TEST_CASE("an interrupt leaves a memory with all the steps that were made") {
  auto options = on_one_memory(3);
  options.evaluate_every = 1;
  const auto plan = tests::tiny_plan(options);
  std::set<std::uint64_t> made;
  for (std::uint64_t event = 1; event < 80; event += 3) {
    CAPTURE(event);
    const auto journal = simulated(plan, {.seed = event, .after_event = tests::interrupt_at(event)});
    std::uint64_t counted = 0;
    for (const auto each : journal->lines.back().staleness_counts) counted += each;
    CHECK(journal->lines.back().updates == counted);
    made.insert(counted);
    REQUIRE(journal->result.defined());
  }
  CHECK(made.size() > 3);
}

TEST_CASE("memories that are averaged become the mean, and keep what others write meanwhile") {
  auto options = on_one_memory(4);
  options.loop = {"gradient", "apply", "average"};
  options.exchanges = {{.name = "left", .kind = "shared", .sends = {}, .members = {"w0", "w1"}, .options = shared()},
                       {.name = "right", .kind = "shared", .sends = {}, .members = {"w2", "w3"}, .options = shared()},
                       {.name = "average",
                        .kind = "all_reduce",
                        .sends = "parameters",
                        .members = {"w0", "w2"},
                        .every = {2, false},
                        .options = {{"route", std::string{"auto"}}}}};
  const auto plan = tests::tiny_plan(options);
  REQUIRE(plan.stores().size() == 2);
  for (std::uint64_t seed = 0; seed < tests::repeat(30, 100); ++seed) {
    CAPTURE(seed);
    const auto journal = simulated(plan, {.seed = seed});
    CHECK(journal->lines.back().updates == 40);
    CHECK(*journal->lines.back().val_accuracy > 0.5);
    CHECK(journal->lines.back().bytes_sent > 0);
  }
}

}  // namespace shared_test
