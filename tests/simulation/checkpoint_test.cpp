// Runs that are killed or interrupted and continue from their last checkpoint. They must not differ from undisturbed
// runs, except in times and in the lines that report where they were continued.
#include "tests/support/doctest.hpp"
#include "tests/support/wirings.hpp"

#include "troupe/runtime/launch/launcher.hpp"
#include "troupe/runtime/simulation/simulation.hpp"
#include "troupe/runtime/telemetry/metrics.hpp"

#include <caf/all.hpp>

#include <algorithm>
#include <set>

namespace checkpoint_test {

namespace {

using namespace troupe;
using tests::name_of;
using tests::remembered;
using tests::tiny_options;

/// The outputs of a run.
struct left_behind {
  std::vector<std::string> lines;  ///< Without times, and without lines of the event "resume".
  at::Tensor result, best;
};

/// Returns a line of the metrics without the values that depend on the clock.
std::string timeless(record line) {
  line.seconds = line.train_seconds = 0;
  line.samples_per_second = line.epoch_seconds = line.data_wait = {};
  return telemetry::json_line(line);
}

/// Runs of one plan, each of which continues from the last checkpoint of the one before.
class interrupted_run {
 public:
  interrupted_run(const plan& plan, std::uint64_t seed) : plan_(plan), seed_(seed), journal_(fresh_book()) {}

  /// Starts or continues the run and kills its process after so many events. Returns false if it ends before that.
  bool run_and_kill(std::uint64_t events) {
    try {
      run({.seed = seed_, .restored = restored_, .most_events = events});
      return false;
    } catch (const std::runtime_error&) {
      return true;
    }
  }

  /// Starts or continues the run and interrupts it after so many events, unless it ends before that.
  void run_and_interrupt(std::uint64_t event) {
    run({.seed = seed_, .restored = restored_, .after_event = tests::interrupt_at(event)});
  }

  /// Goes back to the last checkpoint, or to the beginning.
  void go_back() {
    seed_ += 1;  // another order of events
    lines_.insert(lines_.end(), journal_->lines.begin(),
                  journal_->lines.begin() + static_cast<std::ptrdiff_t>(journal_->lines_before));
    if (journal_->checkpoint_taken) restored_ = journal_->checkpoint_taken;
    journal_ = fresh_book();
  }

  left_behind to_the_end() {
    run({.seed = seed_, .restored = restored_});
    left_behind found{.lines = {}, .result = journal_->result, .best = journal_->best};
    lines_.insert(lines_.end(), journal_->lines.begin(), journal_->lines.end());
    for (const auto& line : lines_)
      if (line.event != "resume") found.lines.push_back(timeless(line));
    return found;
  }

  const run_state* restored() const { return restored_.get(); }
  const remembered& journal() const { return *journal_; }

 private:
  static std::shared_ptr<remembered> fresh_book() { return std::make_shared<remembered>(); }

  void run(const simulation_options& options) {
    models::buffer_pool pool;
    const auto end = simulate(plan_, tests::tiny_data(), initial_weights(plan_, pool), pool, journal_, options);
    CHECK_MESSAGE(!end.failure, end.failure.value_or(""));
  }

  const plan& plan_;
  std::uint64_t seed_;
  std::shared_ptr<remembered> journal_;
  std::shared_ptr<const run_state> restored_;
  std::vector<record> lines_;
};

void check_same(const left_behind& found, const left_behind& expected) {
  REQUIRE((found.result.defined() && found.best.defined()));
  CHECK(found.result.equal(expected.result));
  CHECK(found.best.equal(expected.best));
  const auto count = std::min(found.lines.size(), expected.lines.size());
  const auto differ = std::mismatch(found.lines.begin(), found.lines.begin() + static_cast<std::ptrdiff_t>(count),
                                    expected.lines.begin());
  if (differ.first != found.lines.end() && differ.second != expected.lines.end())
    CHECK(*differ.first == *differ.second);
  CHECK(found.lines.size() == expected.lines.size());
}

plan plan_of(const tiny_options& options, std::uint64_t checkpoint_every = 0) {
  auto plan = tests::tiny_plan(options);
  plan.when.checkpoint_every = checkpoint_every;
  return plan;
}

left_behind undisturbed(plan plan, std::uint64_t seed = 0) {
  plan.when.checkpoint_every = 0;
  return interrupted_run{plan, seed}.to_the_end();
}

/// Kills a run after various numbers of events and compares the outputs of the continued run with those of an
/// undisturbed one. Returns the steps from which runs were continued.
std::set<std::uint64_t> check_kills(const plan& plan, std::uint64_t apart = 37) {
  const auto expected = undisturbed(plan);
  std::set<std::uint64_t> steps;
  for (std::uint64_t events = apart;; events += apart) {
    CAPTURE(events);
    interrupted_run run{plan, events};
    if (!run.run_and_kill(events)) return steps;
    run.go_back();
    if (run.restored()) steps.insert(run.restored()->step);
    check_same(run.to_the_end(), expected);
  }
}

/// Does the same with an interruption, after which the run continues from the step at which it ended.
std::set<std::uint64_t> check_interruptions(const plan& plan, std::uint64_t apart = 37) {
  const auto expected = undisturbed(plan);
  std::set<std::uint64_t> steps;
  for (std::uint64_t event = 1;; event += apart) {
    CAPTURE(event);
    interrupted_run run{plan, event};
    run.run_and_interrupt(event);
    if (run.journal().lines.back().status != "interrupted") return steps;
    const auto end = run.journal().lines.back().step;
    run.go_back();
    if (end < plan.steps) {  // otherwise there is nothing to continue
      REQUIRE(run.restored());
      CHECK(run.restored()->step == end);
      steps.insert(end);
    }
    check_same(run.to_the_end(), expected);
  }
}

/// A run of 30 steps, 3 epochs, with evaluations between their ends.
tiny_options longer(tiny_options options) {
  options.steps = 30;
  options.evaluate_every = 4;
  return options;
}

}  // namespace

TEST_CASE("checkpoints change neither the result nor a line of the metrics") {
  for (const auto& wiring : tests::deterministic_wirings()) {
    CAPTURE(name_of(wiring));
    const auto plan = plan_of(longer(wiring), 7);
    check_same(interrupted_run{plan, 3}.to_the_end(), undisturbed(plan));
  }
}

TEST_CASE("a killed run continues from its last checkpoint as if nothing had happened") {
  for (const auto& wiring : tests::deterministic_wirings()) {
    CAPTURE(name_of(wiring));
    const auto steps = check_kills(plan_of(longer(wiring), 7), 211);
    CHECK(std::all_of(steps.begin(), steps.end(), [](auto step) { return step % 7 == 0; }));
  }
  CHECK(check_kills(plan_of(longer({.workers = 1, .exchange = ""}), 7)) == std::set<std::uint64_t>{7, 14, 21, 28});
}

TEST_CASE("an interrupted run continues from the step at which it was interrupted") {
  for (const auto& wiring : tests::deterministic_wirings()) {
    CAPTURE(name_of(wiring));
    check_interruptions(plan_of(longer(wiring), 7), 211);
  }
  const auto steps = check_interruptions(plan_of(longer({.workers = 2}), 1000));
  CHECK(steps.size() > 5);
}

TEST_CASE("a run can be killed and interrupted again and again") {
  const auto plan = plan_of(longer({.workers = 3}), 3);
  interrupted_run run{plan, 1};
  for (std::uint64_t events = 90; events < 400; events += 60) {
    run.run_and_interrupt(events / 2);
    run.go_back();
    run.run_and_kill(events);
    run.go_back();
  }
  check_same(run.to_the_end(), undisturbed(plan));
}

TEST_CASE("early stopping counts the evaluations before the checkpoint") {
  auto plan = plan_of({.workers = 2, .steps = 200, .evaluate_every = 3}, 5);
  plan.file.evaluate.patience = 4;
  const auto expected = undisturbed(plan);
  REQUIRE(expected.lines.back().find("stopped_early") != std::string::npos);
  check_kills(plan, 101);
  check_interruptions(plan, 101);
}

TEST_CASE("evaluations that were under way are repeated, of each worker, too") {
  auto plan = plan_of({.workers = 2,
                       .exchange = "gossip",
                       .settings = {{"graph", std::string{"ring"}}, {"weights", std::string{"metropolis"}}},
                       .steps = 24,
                       .evaluate_every = 1},
                      2);
  plan.file.evaluate.each_worker = true;
  check_kills(plan, 101);
  check_interruptions(plan, 101);
}

TEST_CASE("max_seconds counts the seconds before the checkpoint") {
  auto plan = plan_of({.workers = 2, .steps = 100'000, .evaluate_every = 1000}, 1000);
  plan.file.run.max_seconds = std::chrono::milliseconds{20'000};
  interrupted_run run{plan, 1};
  run.run_and_interrupt(1500);
  const auto before = run.journal().lines.back().seconds;
  CHECK(before > 0.5);
  run.go_back();
  run.to_the_end();
  const auto& lines = run.journal().lines;
  CHECK(lines.front().event == "resume");
  CHECK(lines.front().step == run.restored()->step);
  CHECK(lines.front().seconds >= before);
  CHECK(lines.back().status == "max_seconds");
  CHECK(lines.back().seconds >= 20);
  CHECK(lines.back().seconds < 21);
  REQUIRE(run.journal().checkpoint_taken);  // the next run has no time left unless its limit is raised
  CHECK(run.journal().checkpoint_taken->step == lines.back().step);
}

TEST_CASE("workers that end at different steps continue from their own") {
  auto options = tests::asynchronous_wirings().front();
  options.steps = 30;
  const auto plan = plan_of(options, 7);
  for (std::uint64_t event = 50; event < 900; event += 170) {
    CAPTURE(event);
    interrupted_run run{plan, event};
    run.run_and_interrupt(event);
    if (run.journal().lines.back().status != "interrupted") continue;
    run.go_back();
    run.to_the_end();
    const auto& end = run.journal().lines.back();
    CHECK(end.status == "done");
    CHECK(end.step == 30);
    CHECK(end.updates == 90);  // nothing is lost or applied twice
  }
}

TEST_CASE("a budget that workers share is used up exactly, wherever the run was cut") {
  const auto plan = plan_of({.workers = 3, .exchange = "", .steps = 24, .evaluate_every = 6, .total_budget = true}, 5);
  const auto samples = [](const remembered& journal) {
    const auto& end = journal.lines.back();
    return std::pair{end.step, end.status};
  };
  for (std::uint64_t event = 20; event < 400; event += 30) {
    CAPTURE(event);
    interrupted_run run{plan, event};
    event % 60 == 20 ? run.run_and_interrupt(event) : static_cast<void>(run.run_and_kill(event));
    run.go_back();
    run.to_the_end();
    CHECK(samples(run.journal()) == std::pair{std::uint64_t{24}, std::string{"done"}});
  }
}

}  // namespace checkpoint_test
