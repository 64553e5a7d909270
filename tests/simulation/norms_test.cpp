// Synchronised batch norms: passes of all workers that wait for each other in the middle, under seeded schedules and on
// real threads.
#include "tests/support/doctest.hpp"
#include "tests/support/repeat.hpp"
#include "tests/support/wirings.hpp"

#include "troupe/runtime/launch/launcher.hpp"
#include "troupe/runtime/node/node.hpp"
#include "troupe/runtime/simulation/simulation.hpp"

#include <ATen/ops/allclose.h>
#include <caf/all.hpp>

#include <set>

namespace norms_test {

namespace {

using namespace troupe;
using tests::remembered;
using tests::tiny_options;

const tiny_options three{.norms = true, .workers = 3};

struct ran {
  run_end end;
  std::shared_ptr<remembered> journal;
};

ran simulate_normed(const tiny_options& options, const simulation_options& simulation) {
  const auto plan = tests::tiny_plan(options);
  models::buffer_pool pool;
  auto journal = std::make_shared<remembered>();
  const auto end =
      simulate(plan, tests::tiny_data(options.samples), initial_weights(plan, pool), pool, journal, simulation);
  return {end, journal};
}

}  // namespace

TEST_CASE("norms of three workers give the same bits under every schedule, and on threads") {
  const auto first = simulate_normed(three, {.seed = 0});
  REQUIRE_FALSE(first.end.failure);
  for (std::uint64_t seed = 1; seed < tests::repeat(20, 50); ++seed) {
    CAPTURE(seed);
    const auto other = simulate_normed(three, {.seed = seed});
    REQUIRE_FALSE(other.end.failure);
    CHECK(other.journal->result.equal(first.journal->result));
    CHECK(other.journal->lines.back().val_loss == first.journal->lines.back().val_loss);
    CHECK(other.journal->lines.back().bytes_sent == first.journal->lines.back().bytes_sent);
  }
  const auto plan = tests::tiny_plan(three);
  for (std::uint64_t round = 0; round < tests::repeat(5, 20); ++round) {
    models::buffer_pool pool;
    auto journal = std::make_shared<remembered>();
    signal_watch signals;
    const auto end =
        run(plan, tests::tiny_data(),
            {.initial = initial_weights(plan, pool), .pool = pool, .open_journal = [&] { return journal; }}, signals);
    REQUIRE(end.status() == 0);
    CHECK(journal->result.equal(first.journal->result));
  }
}

TEST_CASE("norms of three workers are those of one with the whole batch, running statistics too") {
  const auto many = simulate_normed(three, {.seed = 1});
  const auto one = simulate_normed({.norms = true, .workers = 1, .exchange = "", .batch_size = 6}, {.seed = 1});
  REQUIRE_FALSE(many.end.failure);
  REQUIRE_FALSE(one.end.failure);
  CHECK(at::allclose(many.journal->result, one.journal->result, 1e-5, 1e-5));
  auto apart = three;
  apart.norms = false;
  CHECK(tests::tiny_plan(apart).norms() == nullptr);
}

TEST_CASE("bytes sent are those of the plan, the norms' among them") {
  const auto plan = tests::tiny_plan(three);
  REQUIRE(plan.norms() != nullptr);
  // Each of 3 workers sends 2·4 and 2·3 numbers to 2 others, forward and backward.
  std::uint64_t bytes = 0;
  for (const auto& edge : plan.traffic_of(*plan.norms()).edges) bytes += edge.bytes;
  CHECK(bytes == 3 * 2 * 2 * (8 + 6) * sizeof(float));
  const auto run = simulate_normed(three, {.seed = 2});
  CHECK(static_cast<double>(run.journal->lines.back().bytes_sent) == 10 * plan.bytes_per_step());
}

TEST_CASE("an interrupt at any message ends a run with norms at a step that all have completed") {
  std::set<std::uint64_t> ends;
  for (std::uint64_t event = 1; event < 600; event += tests::repeat(15, 5)) {
    CAPTURE(event);
    const auto run = simulate_normed(three, {.seed = event, .after_event = tests::interrupt_at(event)});
    REQUIRE_FALSE(run.end.failure);
    const auto& end = run.journal->lines.back();
    REQUIRE(end.event == "end");
    ends.insert(end.step);
    if (end.status != "interrupted") continue;
    auto shorter = three;
    shorter.steps = end.step;
    CHECK(run.journal->result.equal(simulate_normed(shorter, {}).journal->result));
  }
  CHECK(ends.size() > 3);
}

TEST_CASE("an actor that dies in the middle of a pass ends the run, and is named") {
  for (const std::string name : {"compute 1", "batch_norm 2"}) {
    for (std::uint64_t event = 30; event < 120; event += tests::repeat(4, 1)) {
      CAPTURE(name);
      CAPTURE(event);
      const auto run = simulate_normed(three, {.seed = event, .after_event = [&](const crew& all, std::uint64_t count) {
                                                 if (count != event) return;
                                                 for (const auto& [label, member] : all.actors)
                                                   if (label.name == name)
                                                     caf::anon_send_exit(member, caf::exit_reason::user_shutdown);
                                               }});
      REQUIRE(run.end.failure);
      CHECK(run.end.failure->find(name) == 0);
    }
  }
}

TEST_CASE("a worker that never comes to a norm is named by those who wait for it there") {
  const auto run = simulate_normed(three, {.seed = 1, .lanes = {.duration_of = tests::silent_compute(1)}});
  REQUIRE(run.end.failure);
  CHECK(run.end.failure->find("batch_norm: rank ") != std::string::npos);
  CHECK(run.end.failure->find(" is waiting for rank 1 at step 1; no answer within 60000 ms") != std::string::npos);
}

}  // namespace norms_test
