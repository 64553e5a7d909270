// The same runs on real threads.
#include "troupe/runtime/node/node.hpp"

#include "tests/support/doctest.hpp"
#include "tests/support/tiny.hpp"

#include "troupe/actors/rules/evaluate.hpp"
#include "troupe/runtime/node/launcher.hpp"
#include "troupe/runtime/node/simulation.hpp"

#include <csignal>
#include <unistd.h>

namespace {

using namespace troupe;
using tests::remembered;
using tests::tiny_options;

signal_watch& signals() {
  static signal_watch watch;
  return watch;
}

run_end run_tiny(const plan& plan, const std::shared_ptr<journal>& book, const data::dataset_pair& data) {
  models::buffer_pool pool;
  return run(plan, data, {.initial = initial_weights(plan, pool), .pool = pool, .open_book = [&] { return book; }},
             signals());
}

const std::vector<tiny_options> wirings{
    {.exchange = ""},
    {.exchange = "star", .settings = {{"send", std::string{"whole"}}}},
    {.exchange = "star", .settings = {{"send", std::string{"parameter"}}}},
    {.exchange = "all_reduce", .settings = {{"route", std::string{"direct"}}}},
    {.exchange = "all_reduce", .settings = {{"route", std::string{"chain"}}}},
    {.exchange = "all_reduce", .settings = {{"route", std::string{"auto"}}}},  // small: sent whole
    {.exchange = "all_reduce", .settings = {{"route", std::string{"ring"}}}},
};

}  // namespace

TEST_CASE("each wiring ends cleanly fifty times in a row, with the bits of its simulation") {
  for (const auto& wiring : wirings) {
    CAPTURE(wiring.exchange);
    const auto plan = tests::tiny_plan(wiring);
    models::buffer_pool pool;
    auto simulated = std::make_shared<remembered>();
    REQUIRE_FALSE(simulate(plan, tests::tiny_data(), initial_weights(plan, pool), pool, simulated, {}).failure);
    for (int round = 0; round < 50; ++round) {
      auto book = std::make_shared<remembered>();
      const auto end = run_tiny(plan, book, tests::tiny_data());
      REQUIRE(end.status() == 0);
      CHECK(book->result.equal(simulated->result));
    }
  }
}

TEST_CASE("an exception in a lane ends the run with the actor's name and the reason") {
  SUBCASE("compute") {
    auto plan = tests::tiny_plan({});
    plan.scale = {{0}, {1e-300}};  // inputs are divided by nothing
    const auto end = run_tiny(plan, std::make_shared<remembered>(), tests::tiny_data());
    CHECK(end.status() == 1);
    CHECK(end.failure->find("compute ") == 0);
    CHECK(end.failure->find("is not finite") != std::string::npos);
  }
  SUBCASE("recorder") {
    auto book = std::make_shared<remembered>();
    book->fail_at_step = 5;
    const auto end = run_tiny(tests::tiny_plan({}), book, tests::tiny_data());
    CHECK(end.status() == 1);
    CHECK(end.failure == "recorder: no space left on the shelf");
  }
}

TEST_CASE("a run that is too long for its max_seconds ends in good order and is evaluated") {
  auto plan = tests::tiny_plan({.steps = 100'000'000, .evaluate_every = 50'000'000});
  plan.file.run.max_seconds = std::chrono::milliseconds{200};
  auto book = std::make_shared<remembered>();
  const auto end = run_tiny(plan, book, tests::tiny_data());
  CHECK(end.status() == 0);
  CHECK(book->lines.back().status == "max_seconds");
  CHECK(book->of("evaluation").size() == 1);
  CHECK(book->lines.back().step > 0);
}

TEST_CASE("an interrupted run saves what it has and says what interrupted it") {
  signals();  // before the signal comes
  struct impatient final : journal {
    remembered book;
    void write(const record& line) override { book.write(line); }
    void progress(std::uint64_t step) override {
      if (step > 0 && !sent) kill(getpid(), SIGTERM);
      sent = sent || step > 0;
    }
    void save(const snapshot& result) override { book.save(result); }
    bool sent{false};
  };
  const auto plan = tests::tiny_plan({.steps = 100'000'000, .evaluate_every = 50'000'000});
  const auto impatience = std::make_shared<impatient>();
  const auto end = run_tiny(plan, impatience, tests::tiny_data());
  const auto* book = &impatience->book;
  CHECK(end.status() == 143);
  CHECK(book->lines.back().status == "interrupted");
  CHECK(book->result.defined());
}

TEST_CASE("a cancelled evaluation does not fail the run it was part of") {
  models::buffer_pool pool;
  const auto plan = tests::tiny_plan({});
  auto net = plan.model->make(plan.shape);
  const std::atomic<bool> cancelled{true};
  CHECK_FALSE(rules::evaluate(*net, *tests::tiny_data().test, {}, plan.loss, 1, &cancelled));
}
