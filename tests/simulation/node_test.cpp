// The same runs on real threads.
#include "troupe/runtime/node/node.hpp"

#include "tests/support/doctest.hpp"
#include "tests/support/repeat.hpp"
#include "tests/support/wirings.hpp"

#include "troupe/algorithms/rules/evaluate.hpp"
#include "troupe/runtime/launch/launcher.hpp"
#include "troupe/runtime/simulation/simulation.hpp"

#include <csignal>
#include <unistd.h>

namespace node_test {

namespace {

using namespace troupe;
using tests::name_of;
using tests::remembered;
using tests::tiny_options;

run_end run_tiny(const plan& plan, const std::shared_ptr<journal>& journal, const data::dataset_pair& data) {
  models::buffer_pool pool;
  signal_watch signals;  // one for each run, since it does not forget a signal
  return run(plan, data,
             {.initial = initial_weights(plan, pool), .pool = pool, .open_journal = [&] { return journal; }}, signals);
}

/// All wirings, and how many times each is run.
std::vector<tiny_options> all_wirings() {
  auto all = tests::deterministic_wirings();
  const auto& asynchronous = tests::asynchronous_wirings();
  all.insert(all.end(), asynchronous.begin(), asynchronous.end());
  return all;
}
const auto rounds = tests::repeat(5, 50);

/// Sends a signal to its own process as soon as the run makes progress.
struct impatient final : journal {
  remembered journal;
  void write(const record& line) override { journal.write(line); }
  void progress(std::uint64_t step) override {
    if (step > 0 && !sent) kill(getpid(), SIGTERM);
    sent = sent || step > 0;
  }
  void keep(const snapshot& best) override { journal.keep(best); }
  void save(const snapshot& result) override { journal.save(result); }
  bool sent{false};
};

}  // namespace

TEST_CASE("each wiring ends cleanly many times in a row, with the bits of its simulation") {
  for (const auto& wiring : all_wirings()) {
    CAPTURE(name_of(wiring));
    const auto plan = tests::tiny_plan(wiring);
    models::buffer_pool pool;
    auto simulated = std::make_shared<remembered>();
    REQUIRE_FALSE(simulate(plan, tests::tiny_data(), initial_weights(plan, pool), pool, simulated, {}).failure);
    for (std::uint64_t round = 0; round < rounds; ++round) {
      auto journal = std::make_shared<remembered>();
      const auto end = run_tiny(plan, journal, tests::tiny_data());
      REQUIRE(end.status() == 0);
      if (plan.deterministic()) CHECK(journal->result.equal(simulated->result));
      CHECK(journal->lines.back().updates == simulated->lines.back().updates);
    }
  }
}

TEST_CASE("each wiring ends cleanly many times in a row when it is interrupted") {
  for (auto wiring : all_wirings()) {
    CAPTURE(name_of(wiring));
    wiring.steps = 100'000'000;
    wiring.evaluate_every = 50'000'000;
    const auto plan = tests::tiny_plan(wiring);
    for (std::uint64_t round = 0; round < tests::repeat(2, 10);
         ++round) {  // a worker reports its progress only every 100 ms
      const auto impatience = std::make_shared<impatient>();
      const auto end = run_tiny(plan, impatience, tests::tiny_data());
      REQUIRE(end.status() == 143);
      CHECK(impatience->journal.lines.back().status == "interrupted");
      CHECK(impatience->journal.result.defined());
    }
  }
}

TEST_CASE("each wiring ends many times in a row when an actor throws in its seventh step, and names it") {
  auto data = tests::tiny_data(100);
  for (auto wiring : all_wirings()) {
    CAPTURE(name_of(wiring));
    wiring.samples = 100;
    auto plan = tests::tiny_plan(wiring);
    plan.sampling.shuffle = false;
    auto broken = std::make_shared<data::dataset>(*tests::tiny_data(100).train);
    broken->targets = broken->targets.clone();
    broken->targets[1 + 6 * 2 * plan.workers] = 7;  // there are three classes; worker 1 first sees it in its 7th step
    data.train = broken;
    for (std::uint64_t round = 0; round < rounds; ++round) {
      const auto end = run_tiny(plan, std::make_shared<remembered>(), data);
      REQUIRE(end.status() == 1);
      CHECK(*end.failure == "compute 1: Target 7 is out of bounds.");
    }
  }
}

TEST_CASE("an exception in a lane ends the run with the actor's name and the reason") {
  SUBCASE("compute") {
    auto plan = tests::tiny_plan({});
    plan.scale = {{0}, {1e-300}};  // divides the inputs by almost 0
    const auto end = run_tiny(plan, std::make_shared<remembered>(), tests::tiny_data());
    CHECK(end.status() == 1);
    CHECK(end.failure->find("compute ") == 0);
    CHECK(end.failure->find("is not finite") != std::string::npos);
  }
  SUBCASE("recorder") {
    auto journal = std::make_shared<remembered>();
    journal->fail_at_step = 5;
    const auto end = run_tiny(tests::tiny_plan({}), journal, tests::tiny_data());
    CHECK(end.status() == 1);
    CHECK(end.failure == "recorder: no space left on the shelf");
  }
}

TEST_CASE("a run that is too long for its max_seconds ends in good order and is evaluated") {
  auto plan = tests::tiny_plan({.steps = 100'000'000, .evaluate_every = 50'000'000});
  plan.file.run.max_seconds = std::chrono::milliseconds{200};
  auto journal = std::make_shared<remembered>();
  const auto end = run_tiny(plan, journal, tests::tiny_data());
  CHECK(end.status() == 0);
  CHECK(journal->lines.back().status == "max_seconds");
  CHECK(journal->of("evaluation").size() == 1);
  CHECK(journal->lines.back().step > 0);
}

TEST_CASE("an interrupted run saves what it has and says what interrupted it") {
  const auto plan = tests::tiny_plan({.steps = 100'000'000, .evaluate_every = 50'000'000});
  const auto impatience = std::make_shared<impatient>();
  const auto end = run_tiny(plan, impatience, tests::tiny_data());
  const auto* journal = &impatience->journal;
  CHECK(end.status() == 143);
  CHECK(journal->lines.back().status == "interrupted");
  CHECK(journal->result.defined());
}

TEST_CASE("a cancelled evaluation does not fail the run it was part of") {
  models::buffer_pool pool;
  const auto plan = tests::tiny_plan({});
  auto net = plan.model->make(plan.shape);
  const std::atomic<bool> cancelled{true};
  CHECK_FALSE(rules::evaluate(*net, *tests::tiny_data().test, {}, plan.loss, {.batch_size = 1}, &cancelled));
}

}  // namespace node_test
