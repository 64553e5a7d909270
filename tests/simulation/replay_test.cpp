// Runs that are recorded and replayed: the replay has the same bits, whatever was asynchronous, and differences are
// found.
#include "tests/support/doctest.hpp"
#include "tests/support/repeat.hpp"
#include "tests/support/wirings.hpp"

#include "troupe/runtime/simulation/replay_run.hpp"
#include "troupe/runtime/simulation/simulation.hpp"

#include <caf/send.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace replay_test {

namespace {

using namespace troupe;

struct recorded_run {
  std::shared_ptr<tests::remembered> journal = std::make_shared<tests::remembered>();
  recording::contents deliveries;
};

/// Simulates a run and records it, as recording::writer does.
recorded_run record_run(const plan& plan, simulation_options how) {
  recorded_run made;
  std::map<std::uint32_t, std::shared_ptr<shared_memory>> memories;
  auto& entries = made.deliveries.entries;
  how.deliveries.order_of = [&](std::uint32_t actor) {
    return delivery_order{.log = [&entries, actor](const delivery& what) { entries.push_back({actor, what}); }};
  };
  how.deliveries.lock_order_of = [&](std::uint32_t id, const auto& memory) {
    memory->note_acquisitions();
    memories.emplace(id, memory);
    return std::shared_ptr<lock_order>{};
  };
  models::buffer_pool pool;
  const auto end = simulate(plan, tests::tiny_data(), initial_weights(plan, pool), pool, made.journal, how);
  REQUIRE_MESSAGE(!end.failure, end.failure.value_or(""));
  for (const auto& [id, memory] : memories)
    for (const auto who : memory->take_acquisitions())
      entries.push_back({id, {.what = delivery::kind::acquisition, .from = who, .step = 1}});
  made.deliveries.complete = true;
  return made;
}

struct replayed_run {
  std::shared_ptr<tests::remembered> journal = std::make_shared<tests::remembered>();
  replay_end outcome;
};

replayed_run replay_of(const plan& plan, const recording::contents& deliveries,
                       std::optional<std::uint64_t> until = std::nullopt,
                       std::shared_ptr<const run_state> from = nullptr) {
  replayed_run made;
  models::buffer_pool pool;
  auto initial = initial_weights(plan, pool);
  made.outcome = replay_run(plan, tests::tiny_data(), std::move(initial), pool, made.journal,
                            {.recorded = deliveries, .from = std::move(from), .until = until});
  return made;
}

/// Returns the content of the metrics, without times.
auto said_by(const record& line) {
  // The loss of a worker that has made no step is NaN, and NaN does not equal NaN.
  std::vector<std::optional<double>> losses;
  for (const auto loss : line.train_loss_workers)
    losses.push_back(std::isnan(loss) ? std::nullopt : std::optional{loss});
  return std::tuple{line.event,
                    line.step,
                    line.updates,
                    line.train_loss,
                    line.val_loss,
                    line.val_accuracy,
                    losses,
                    line.bytes_sent,
                    line.staleness_mean,
                    line.staleness_max,
                    line.gradients_refused,
                    line.consensus_distance,
                    line.consensus_distance_before,
                    line.consensus_distance_after,
                    line.consensus_distance_max,
                    line.staleness_counts,
                    line.status,
                    line.stopped_by};
}

void check_same(const tests::remembered& replay, const tests::remembered& run) {
  REQUIRE(replay.lines.size() == run.lines.size());
  for (std::size_t i = 0; i < run.lines.size(); ++i) CHECK((said_by(replay.lines[i]) == said_by(run.lines[i])));
  CHECK(replay.result.equal(run.result));
}

/// The asynchronous wirings with locked memories, and some further ones that have more to record.
std::vector<tests::tiny_options> recordable_wirings() {
  auto all = tests::asynchronous_wirings();
  for (auto& options : all) {
    if (options.settings.contains("lock")) options.settings["lock"] = true;
    for (auto& exchange : options.exchanges)
      if (exchange.options.contains("lock")) exchange.options["lock"] = true;
  }
  all.push_back(all.front());
  all.back().settings["staleness_bound"] = std::int64_t{1};
  all.push_back(all.front());
  all.back().settings["apply"] = std::string{"first"};
  all.back().settings["first"] = std::int64_t{2};
  all.back().settings["shards"] = std::int64_t{1};
  return all;
}

/// Interrupts the run at two events, as when two nodes are stopped by SIGTERM.
std::function<void(const crew&, std::uint64_t)> interrupts_at(std::uint64_t first, std::uint64_t second) {
  return [one = tests::interrupt_at(first), other = tests::interrupt_at(second)](const crew& all, std::uint64_t count) {
    one(all, count);
    other(all, count);
  };
}

tests::tiny_options asynchronous_sgd() {
  return tests::asynchronous_wirings().front();
}

}  // namespace

TEST_CASE("a replay has the bits and the metrics of the recorded run") {
  for (const auto& options : recordable_wirings()) {
    CAPTURE(tests::name_of(options));
    const auto plan = tests::tiny_plan(options);
    for (std::uint64_t seed = 0; seed < tests::repeat(4, 50); ++seed) {
      CAPTURE(seed);
      const auto run = record_run(plan, {.seed = seed});
      const auto again = replay_of(plan, run.deliveries);
      CHECK_MESSAGE(!again.outcome.end.failure, again.outcome.end.failure.value_or(""));
      check_same(*again.journal, *run.journal);
    }
  }
}

TEST_CASE("a replay ends where an interrupt has ended the recorded run") {
  auto wirings = recordable_wirings();
  wirings.push_back(tests::deterministic_wirings()[3]);
  for (const auto& options : wirings) {
    CAPTURE(tests::name_of(options));
    const auto plan = tests::tiny_plan(options);
    for (std::uint64_t event = 5; event < 200; event += tests::repeat(60, 7)) {
      CAPTURE(event);
      const auto run = record_run(plan, {.seed = event, .after_event = tests::interrupt_at(event)});
      const auto again = replay_of(plan, run.deliveries);
      CHECK_MESSAGE(!again.outcome.end.failure, again.outcome.end.failure.value_or(""));
      check_same(*again.journal, *run.journal);
    }
  }
}

TEST_CASE("a recording that begins at a checkpoint replays from it") {
  for (const auto& options : recordable_wirings()) {
    CAPTURE(tests::name_of(options));
    auto plan = tests::tiny_plan(options);
    plan.when.checkpoint_every = 3;
    const auto whole = record_run(plan, {.seed = 1});
    const auto from = whole.journal->checkpoint_taken;
    REQUIRE(from);
    for (std::uint64_t seed = 0; seed < tests::repeat(3, 30); ++seed) {
      CAPTURE(seed);
      simulation_options how{.seed = seed, .restored = from};
      if (seed % 3 == 1) how.after_event = interrupts_at(40, 41);
      if (seed % 3 == 2) how.after_event = tests::interrupt_at(90);
      const auto run = record_run(plan, how);
      const auto again = replay_of(plan, run.deliveries, std::nullopt, from);
      CHECK_MESSAGE(!again.outcome.end.failure, again.outcome.end.failure.value_or(""));
      check_same(*again.journal, *run.journal);
      CHECK(again.journal->lines.front().event == "resume");
    }
  }
}

TEST_CASE("a recording that continues a run whose time is over replays from its checkpoint") {
  for (const auto& options : recordable_wirings()) {
    CAPTURE(tests::name_of(options));
    auto plan = tests::tiny_plan(options);
    plan.when.checkpoint_every = 3;
    const auto from = record_run(plan, {.seed = 1}).journal->checkpoint_taken;
    REQUIRE(from);
    simulation_options how{.seed = 1, .restored = from};
    how.after_event = [](const crew& all, std::uint64_t count) {
      if (count == 1) caf::anon_send(all.coordinator, tick_atom_v);
    };
    const auto run = record_run(plan, how);
    const auto again = replay_of(plan, run.deliveries, std::nullopt, from);
    CHECK_MESSAGE(!again.outcome.end.failure, again.outcome.end.failure.value_or(""));
    check_same(*again.journal, *run.journal);
  }
}

TEST_CASE("a recording that is cut off replays to where it ends, and the same again") {
  const auto plan = tests::tiny_plan(asynchronous_sgd());
  const auto run = record_run(plan, {.seed = 1});
  std::optional<std::uint64_t> before;
  for (std::size_t kept = 0; kept < run.deliveries.entries.size(); kept += tests::repeat(7, 1)) {
    CAPTURE(kept);
    recording::contents some{run.deliveries};
    some.entries.resize(kept);
    some.complete = false;
    const auto once = replay_of(plan, some), twice = replay_of(plan, some);
    CHECK_MESSAGE(!once.outcome.end.failure, once.outcome.end.failure.value_or(""));
    REQUIRE(once.outcome.cut_at);
    CHECK(before.value_or(0) <= *once.outcome.cut_at);
    before = once.outcome.cut_at;
    check_same(*twice.journal, *once.journal);
  }
  CHECK(before.value_or(0) > 2);
}

TEST_CASE("a replay can be ended after any number of steps") {
  for (const auto& options : {asynchronous_sgd(), tests::deterministic_wirings()[3]}) {
    const auto plan = tests::tiny_plan(options);
    const auto run = record_run(plan, {.seed = 1});
    for (std::uint64_t step = 1; step < plan.steps; ++step) {
      const auto again = replay_of(plan, run.deliveries, step);
      CHECK_MESSAGE(!again.outcome.end.failure, again.outcome.end.failure.value_or(""));
      CHECK((again.outcome.cut_at == step));
      CHECK(again.journal->lines.back().step == step);
    }
    check_same(*replay_of(plan, run.deliveries, plan.steps + 1).journal, *run.journal);
  }
}

TEST_CASE("two contributions that have changed places are found, and the first of them is named") {
  const auto plan = tests::tiny_plan(asynchronous_sgd());
  const auto run = record_run(plan, {.seed = 1});
  const auto& entries = run.deliveries.entries;
  std::size_t swapped = 0;
  for (std::size_t i = 0; i + 1 < entries.size(); ++i) {
    const auto next = std::find_if(entries.begin() + static_cast<std::ptrdiff_t>(i) + 1, entries.end(),
                                   [&](const auto& one) { return one.actor == entries[i].actor; });
    const auto is_pair = entries[i].actor != 0 && next != entries.end() &&
                         entries[i].what.what == delivery::kind::part && next->what.what == delivery::kind::part &&
                         entries[i].what.from != next->what.from;
    if (!is_pair) continue;
    auto other = run.deliveries;
    std::swap(other.entries[i], other.entries[static_cast<std::size_t>(next - entries.begin())]);
    const auto again = replay_of(plan, other);
    REQUIRE(again.outcome.end.failure);
    CAPTURE(*again.outcome.end.failure);
    CHECK(again.outcome.end.failure->find(describe(next->what)) != std::string::npos);
    ++swapped;
  }
  CHECK(swapped > 5);
}

TEST_CASE("a gradient that is not the recorded one is found where it comes in") {
  const auto plan = tests::tiny_plan(asynchronous_sgd());
  auto deliveries = record_run(plan, {.seed = 1}).deliveries;
  const auto part = std::find_if(deliveries.entries.begin(), deliveries.entries.end(), [](const auto& one) {
    return one.what.what == delivery::kind::part && one.what.step == 3;
  });
  REQUIRE(part != deliveries.entries.end());
  part->what.taken ^= 1;
  const auto again = replay_of(plan, deliveries);
  REQUIRE(again.outcome.end.failure);
  CHECK(again.outcome.end.failure->find(describe(part->what) + ": its values differ") != std::string::npos);
}

}  // namespace replay_test
