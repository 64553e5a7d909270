// Whole runs of the real actors under CAF's test coordinator: one message at a time, in seeded orders, in virtual time.
#include "troupe/runtime/simulation/simulation.hpp"

#include "tests/support/doctest.hpp"
#include "tests/support/repeat.hpp"
#include "tests/support/wirings.hpp"

#include "troupe/runtime/launch/launcher.hpp"

#include <ATen/ops/allclose.h>
#include <ATen/ops/full.h>
#include <caf/all.hpp>
#include <caf/scheduler/test_coordinator.hpp>

#include <map>
#include <set>

namespace simulation_test {

namespace {

using namespace troupe;
using tests::name_of;
using tests::remembered;
using tests::tiny_options;

struct ran {
  run_end end;
  std::shared_ptr<remembered> journal;
};

ran simulate_tiny(const tiny_options& options, const simulation_options& simulation, bool early_stop = false) {
  auto plan = tests::tiny_plan(options);
  if (early_stop) {
    plan.file.evaluate.target_accuracy = 0.5;
    plan.file.evaluate.target_hold = 1;
  }
  models::buffer_pool pool;
  auto journal = std::make_shared<remembered>();
  const auto end =
      simulate(plan, tests::tiny_data(options.samples), initial_weights(plan, pool), pool, journal, simulation);
  return {end, journal};
}

const std::vector<tiny_options>& wirings = tests::deterministic_wirings();
const std::vector<tiny_options>& asynchronous = tests::asynchronous_wirings();

}  // namespace

TEST_CASE("every seeded schedule gives the same bits, and what it tells is the same but for the time") {
  for (const auto& wiring : wirings) {
    CAPTURE(name_of(wiring));
    const auto first = simulate_tiny(wiring, {.seed = 0});
    REQUIRE_FALSE(first.end.failure);
    for (std::uint64_t seed = 1; seed < tests::repeat(30, 100); ++seed) {
      CAPTURE(seed);
      const auto other = simulate_tiny(wiring, {.seed = seed});
      REQUIRE_FALSE(other.end.failure);
      CHECK(other.journal->result.equal(first.journal->result));
      REQUIRE(other.journal->lines.size() == first.journal->lines.size());
      for (std::size_t i = 0; i < other.journal->lines.size(); ++i) {
        CHECK(other.journal->lines[i].event == first.journal->lines[i].event);
        CHECK(other.journal->lines[i].step == first.journal->lines[i].step);
        CHECK(other.journal->lines[i].val_loss == first.journal->lines[i].val_loss);
        CHECK(other.journal->lines[i].train_loss == first.journal->lines[i].train_loss);
        CHECK(other.journal->lines[i].bytes_sent == first.journal->lines[i].bytes_sent);
        CHECK(other.journal->lines[i].updates == first.journal->lines[i].updates);
        CHECK(other.journal->lines[i].consensus_distance == first.journal->lines[i].consensus_distance);
      }
    }
  }
}

TEST_CASE("star and every all-reduce but the ring give the same bits") {
  const auto star = simulate_tiny(wirings[1], {});
  for (const std::size_t other : {2U, 3U, 4U, 5U}) {
    CAPTURE(other);
    CHECK(simulate_tiny(wirings[other], {}).journal->result.equal(star.journal->result));
  }
}

TEST_CASE("a second exchange takes what the first has made of the gradient") {
  const topology::exchange_settings star{
      .name = "exchange", .kind = "star", .sends = {}, .options = wirings[1].settings};
  topology::exchange_settings again{.name = "again", .kind = "all_reduce", .sends = {}, .options = wirings[5].settings};
  const auto both = simulate_tiny(
      {.workers = 3, .loop = {"gradient", "exchange", "again", "apply"}, .exchanges = {star, again}}, {.seed = 4});
  REQUIRE_FALSE(both.end.failure);
  CHECK(at::allclose(both.journal->result, simulate_tiny(wirings[1], {}).journal->result, 1e-5, 1e-6));
}

TEST_CASE("events come in order: evaluations, epochs, one end") {
  // 60 samples, 3 workers, batch 2: 10 steps an epoch. The run has 25 steps, evaluated every 5.
  const auto run = simulate_tiny({.workers = 3, .steps = 25, .evaluate_every = 5}, {.seed = 3});
  std::vector<std::string> told;
  for (const auto& line : run.journal->lines) told.push_back(line.event + " " + std::to_string(line.step));
  CHECK(told == std::vector<std::string>{"start 0", "evaluation 5", "evaluation 10", "epoch 10", "evaluation 15",
                                         "evaluation 20", "epoch 20", "evaluation 25", "end 25"});
  CHECK(run.journal->lines.back().status == "done");
  CHECK(run.journal->lines.back().val_accuracy.has_value());
}

TEST_CASE("bytes sent are those of the plan") {
  const auto plan = tests::tiny_plan({.workers = 4, .steps = 7});
  const auto run = simulate_tiny({.workers = 4, .steps = 7}, {.seed = 5});
  CHECK(static_cast<double>(run.journal->lines.back().bytes_sent) == 7 * plan.bytes_per_step());
  for (const auto& wiring : wirings) {
    CAPTURE(name_of(wiring));
    const auto all = simulate_tiny(wiring, {.seed = 6});
    const auto planned = tests::tiny_plan(wiring);
    std::uint64_t times = 0;
    double bytes = 0;
    for (const auto& exchange : planned.exchanges) {
      times = (10 - 1 + exchange.due.lead) / exchange.due.every + (exchange.due.every == 1 ? 1 - exchange.due.lead : 0);
      for (const auto& edge : planned.traffic_of(exchange).edges) bytes += static_cast<double>(times * edge.bytes);
    }
    CHECK(static_cast<double>(all.journal->lines.back().bytes_sent) == bytes);
  }
}

TEST_CASE("no steps at all gives the initial weights, evaluated once") {
  const auto run = simulate_tiny({.steps = 0}, {});
  REQUIRE_FALSE(run.end.failure);
  CHECK(run.journal->of("evaluation").size() == 1);
  const auto plan = tests::tiny_plan({});
  models::buffer_pool pool;
  CHECK(run.journal->result.equal(initial_weights(plan, pool)));
}

TEST_CASE("an interrupt at any message ends the run at a step that all have completed") {
  for (const auto& wiring : wirings) {
    CAPTURE(name_of(wiring));
    std::set<std::uint64_t> ends;
    std::map<std::uint64_t, at::Tensor> results;  // by number of steps of the run
    for (std::uint64_t event = 1; event < 400; event += tests::repeat(9, 3)) {
      CAPTURE(event);
      const auto run = simulate_tiny(wiring, {.seed = event, .after_event = tests::interrupt_at(event)});
      REQUIRE_FALSE(run.end.failure);
      const auto& end = run.journal->lines.back();
      REQUIRE(end.event == "end");
      ends.insert(end.step);
      if (end.status != "interrupted") continue;
      auto shorter = wiring;
      shorter.steps = end.step;
      auto& expected = results[end.step];
      if (!expected.defined()) expected = simulate_tiny(shorter, {}).journal->result;
      CHECK(run.journal->result.equal(expected));
    }
    // Between exchanges, many steps are one request.
    CHECK(ends.size() > (wiring.exchange.empty() || wiring.every > 1 ? 1 : 3));
  }
}

TEST_CASE("an interrupt at any message ends an asynchronous run too, with a result") {
  for (const auto& wiring : asynchronous) {
    CAPTURE(name_of(wiring));
    std::set<std::uint64_t> ends;
    for (std::uint64_t event = 1; event < 400; event += tests::repeat(9, 3)) {
      CAPTURE(event);
      const auto run = simulate_tiny(wiring, {.seed = event, .after_event = tests::interrupt_at(event)});
      REQUIRE_FALSE(run.end.failure);
      const auto& end = run.journal->lines.back();
      REQUIRE(end.event == "end");
      REQUIRE(run.journal->result.defined());
      ends.insert(end.step);
    }
    CHECK(ends.size() > 1);
  }
}

TEST_CASE("whatever the order, asynchronous gradients are all applied, and counted by their staleness") {
  std::set<double> stalest;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    const auto run = simulate_tiny(asynchronous[0], {.seed = seed});
    REQUIRE_FALSE(run.end.failure);
    const auto& end = run.journal->lines.back();
    CHECK(end.step == 10);
    CHECK(end.updates == 30);
    std::uint64_t counted = 0;
    for (const auto count : end.staleness_counts) counted += count;
    CHECK(counted == 60);  // by each of the two shards
    stalest.insert(*end.staleness_max);
  }
  CHECK(stalest.size() > 2);
}

TEST_CASE("an early stop takes effect before the first step after the verdict") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto run = simulate_tiny({.workers = 3, .steps = 500, .evaluate_every = 5}, {.seed = seed}, true);
    REQUIRE_FALSE(run.end.failure);
    const auto& end = run.journal->lines.back();
    CHECK(end.status == "stopped_early");
    CHECK(end.step < 500);
    const auto evaluations = run.journal->of("evaluation");
    CHECK(evaluations.back().step == end.step);
    CHECK(*evaluations.back().val_accuracy >= 0.5);
    for (std::size_t i = 0; i + 1 < evaluations.size(); ++i) CHECK(*evaluations[i].val_accuracy < 0.5);
  }
}

TEST_CASE("training time does not grow while workers pause for an evaluation, and training comes out the same") {
  const tiny_options options{.workers = 3, .steps = 20, .evaluate_every = 5};
  auto plan = tests::tiny_plan(options);
  const auto run_of = [&](std::uint64_t seed) {
    models::buffer_pool pool;
    auto journal = std::make_shared<remembered>();
    const auto end = simulate(plan, tests::tiny_data(), initial_weights(plan, pool), pool, journal, {.seed = seed});
    REQUIRE_FALSE(end.failure);
    return journal;
  };
  const auto free = run_of(5);
  plan.file.evaluate.pause_training = true;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto journal = run_of(seed);
    CHECK(journal->result.equal(free->result));
    const auto evaluations = journal->of("evaluation");
    REQUIRE(evaluations.size() == 4);
    // Each pause, and the sum of all pauses, is in one clock and not in the other.
    for (std::size_t i = 1; i < evaluations.size(); ++i) {
      const auto &before = evaluations[i - 1], &after = evaluations[i];
      CHECK(after.seconds - after.train_seconds > before.seconds - before.train_seconds);
      CHECK(after.train_seconds > before.train_seconds);
    }
    CHECK(evaluations.front().train_seconds == evaluations.front().seconds);
    CHECK(evaluations.front().train_accuracy.has_value());
  }
}

TEST_CASE("a failure anywhere ends the run and names who failed and why") {
  const auto fails = [](const tiny_options& options, auto break_it) {
    return simulate_tiny(options, {.seed = 1,
                                   .after_event =
                                       [&](const crew& all, std::uint64_t count) {
                                         if (count == 100) break_it(all);
                                       }})
        .end.failure.value_or("");
  };
  CHECK(fails({.steps = 50}, [](const crew& all) {
          caf::anon_send(all.workers[2], control::finish{rank_id{2}, 0});
        }) == "worker 2: received a final step that precedes a step already begun");
  CHECK(fails({.steps = 50}, [](const crew& all) {
          caf::anon_send(all.coordinator, milestone{.rank = rank_id{9}, .step = 5});
        }).find("coordinator: ") == 0);
  CHECK(fails({.steps = 50}, [](const crew& all) {
          for (const auto& [label, member] : all.actors)
            if (label.name == "exchange 1")
              caf::anon_send(caf::actor_cast<peer_port>(member), part_atom_v, part{.origin = {.run = run_id{77}}});
        }).find("exchange 1: received a part that belongs to another run") == 0);

  auto plan = tests::tiny_plan({});
  models::buffer_pool pool;
  SUBCASE("a compute actor whose loss is not finite") {
    plan.scale = {{0}, {1e-300}};  // divides the inputs by almost 0
    const auto end =
        simulate(plan, tests::tiny_data(), initial_weights(plan, pool), pool, std::make_shared<remembered>(), {});
    REQUIRE(end.failure);
    CHECK(end.failure->find("compute ") == 0);
    CHECK(end.failure->find("is not finite") != std::string::npos);
    CHECK(end.failure->find("optimizer.lr") != std::string::npos);
  }
  SUBCASE("a recorder that cannot write") {
    auto journal = std::make_shared<remembered>();
    journal->fail_at_step = 5;
    const auto end = simulate(plan, tests::tiny_data(), initial_weights(plan, pool), pool, journal, {});
    CHECK(end.failure == "recorder: no space left on the shelf");
  }
  SUBCASE("an evaluator whose data are broken") {
    auto data = tests::tiny_data();
    auto broken = std::make_shared<data::dataset>(*data.test);
    broken->targets = at::full({60}, 7, at::kLong);  // there are three classes
    data.test = broken;
    const auto end = simulate(plan, data, initial_weights(plan, pool), pool, std::make_shared<remembered>(), {});
    REQUIRE(end.failure);
    CHECK(*end.failure == "evaluator: Target 7 is out of bounds.");
  }
}

TEST_CASE("a member that falls silent is named by those who wait for it, in virtual time") {
  const auto run = simulate_tiny(wirings[1], {.seed = 1, .lanes = {.duration_of = tests::silent_compute(1)}});
  CHECK(run.end.failure ==
        "worker 1: compute 1 did not complete step 1 within 60000 ms (run.timeout); set a larger run.timeout");
}

TEST_CASE("the deadlines of workers leave no more than a few messages in the clock, however long the run") {
  std::size_t most = 0;
  auto plan = tests::tiny_plan({.workers = 3, .steps = 400});
  plan.file.run.timeout = std::chrono::seconds{1};  // a step takes a tenth of the timeout, the run forty timeouts
  models::buffer_pool pool;
  simulation_options options{.seed = 1};
  options.after_event = [&](const crew& all, std::uint64_t) {
    auto& scheduler = dynamic_cast<caf::scheduler::test_coordinator&>(all.coordinator->home_system().scheduler());
    most = std::max(most, scheduler.clock().schedule().size());
  };
  const auto end =
      simulate(plan, tests::tiny_data(), initial_weights(plan, pool), pool, std::make_shared<remembered>(), options);
  CHECK_FALSE(end.failure);
  CHECK(most < 40);
}

TEST_CASE("an actor that disappears ends the run") {
  const auto run = simulate_tiny({.workers = 3, .steps = 50},
                                 {.seed = 1, .after_event = [](const crew& all, auto count) {
                                    if (count == 100)
                                      caf::anon_send_exit(all.workers[1], caf::exit_reason::user_shutdown);
                                  }});
  REQUIRE(run.end.failure);
  CHECK(run.end.failure->find("worker 1") == 0);
}

TEST_CASE("a simulated run that does not end says so, with its seed") {
  CHECK_THROWS_WITH(simulate_tiny({.workers = 2}, {.seed = 9, .most_events = 50}),
                    "the simulated run did not end (schedule seed 9)");
}

TEST_CASE("lanes that cannot be had leave no actor behind") {
  struct few final : lane_factory {
    int left = 5;
    std::unique_ptr<lane> make(const actor_label&) override {
      if (left-- == 0) throw std::runtime_error("no more threads");
      struct idle final : lane {
        void post(caf::actor, task, job) override {}
        std::shared_ptr<rendezvous> meeting_point() override { return nullptr; }
      };
      return std::make_unique<idle>();
    }
  } lanes;
  const auto plan = tests::tiny_plan({});
  models::buffer_pool pool;
  caf::actor_system_config config;
  caf::actor_system system{config};  // its destructor waits for every actor
  CHECK_THROWS_WITH(launch(system, plan, tests::tiny_data(), lanes,
                           {std::make_shared<remembered>(), initial_weights(plan, pool), pool}),
                    "no more threads");
}

}  // namespace simulation_test
