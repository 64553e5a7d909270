#include "troupe/actors/service/recorder.hpp"

#include "tests/support/doctest.hpp"
#include "tests/support/stepped_system.hpp"

#include <ATen/ops/full.h>
#include <caf/all.hpp>
#include <caf/scheduler/test_coordinator.hpp>

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace recorder_test {

namespace {

using namespace troupe;

struct queue {
  std::deque<std::pair<caf::actor, lane::job>> jobs;

  void do_one() {
    auto [owner, work] = std::move(jobs.front());
    jobs.pop_front();
    caf::anon_send(owner, done_atom_v, completion{std::make_shared<std::function<void()>>(work())});
  }
};

/// Runs its jobs only when the test says so: a slow disk.
class slow_lane final : public lane {
 public:
  explicit slow_lane(std::shared_ptr<queue> waiting) : waiting_(std::move(waiting)) {}
  void post(caf::actor owner, task, job work) override {
    waiting_->jobs.emplace_back(std::move(owner), std::move(work));
  }
  std::shared_ptr<rendezvous> meeting_point() override { return nullptr; }

 private:
  std::shared_ptr<queue> waiting_;
};

struct diary : journal {
  std::vector<std::string> written;

  void write(const record& line) override { written.push_back(line.event); }
  void progress(std::uint64_t) override {}
  void keep(const snapshot& best) override { note("kept", best); }
  void save(const snapshot& result) override { note("saved", result); }
  std::optional<state_dict> checkpoint(const run_state& state, bool copied) override {
    written.push_back("checkpoint " + std::to_string(state.step));
    return copied ? std::optional{state_dict{}} : std::nullopt;
  }
  void report_overdue_copy(std::uint64_t step) override {
    written.push_back("copy " + std::to_string(step) + " missed");
  }
  void note(const std::string& what, const snapshot& one) {
    written.push_back(what + " " + std::to_string(one.values[0].item<int>()));
  }
};

snapshot of(float value) {
  return {.origin = {}, .values = at::full({1}, value)};
}

}  // namespace

TEST_CASE("of best results that overtake each other before they are written only the newest is, after the result") {
  testing::stepped_config settings;
  caf::actor_system system{settings};
  auto& scheduler = dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());
  const auto waiting = std::make_shared<queue>();
  const auto journal = std::make_shared<diary>();
  const auto recorder = spawn_recorder(system, {.journal = journal}, std::make_unique<slow_lane>(waiting));
  const auto run = [&] {
    while (scheduler.has_job()) scheduler.run_once();
  };
  for (const auto value : {1.0F, 2.0F, 3.0F}) caf::anon_send(recorder, keep_atom_v, of(value));
  run();
  CHECK(waiting->jobs.size() == 1);
  SUBCASE("written one after the other") {
    waiting->do_one();
    run();
    waiting->do_one();
    run();
    CHECK(journal->written == std::vector<std::string>{"kept 1", "kept 3"});
    CHECK(waiting->jobs.empty());
  }
  SUBCASE("overtaken by the end") {
    record end;
    end.event = "end";
    caf::anon_send(recorder, save_atom_v, of(4), end);
    run();
    while (!waiting->jobs.empty()) {
      waiting->do_one();
      run();
    }
    CHECK(journal->written == std::vector<std::string>{"kept 1", "saved 4", "kept 3", "end"});
  }
  caf::anon_send_exit(recorder, caf::exit_reason::kill);
  run();
}

TEST_CASE("the end of a run waits until the copies of its checkpoints are written, but not forever") {
  testing::stepped_config settings;
  caf::actor_system system{settings};
  auto& scheduler = dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());
  const auto waiting = std::make_shared<queue>();
  const auto journal = std::make_shared<diary>();
  std::vector<std::uint64_t> sent;
  const auto recorder = spawn_recorder(
      system, {.journal = journal, .send_copy = [&](std::uint64_t step, const state_dict&) { sent.push_back(step); }},
      std::make_unique<slow_lane>(waiting));
  const auto run = [&] {
    while (scheduler.has_job()) scheduler.run_once();
    while (!waiting->jobs.empty()) {
      waiting->do_one();
      while (scheduler.has_job()) scheduler.run_once();
    }
  };
  const auto written = [&] { return std::exchange(journal->written, {}); };
  using lines = std::vector<std::string>;
  record end;
  end.event = "end";
  for (const std::uint64_t step : {10, 20}) caf::anon_send(recorder, checkpoint_atom_v, run_state{step, {}});
  caf::anon_send(recorder, save_atom_v, of(4), end);
  run();
  CHECK(sent == std::vector<std::uint64_t>{10, 20});
  CHECK(written() == lines{"checkpoint 10", "checkpoint 20"});
  caf::anon_send(recorder, checkpoint_atom_v, std::uint64_t{20});
  run();
  CHECK(written().empty());
  SUBCASE("confirmed") {
    caf::anon_send(recorder, checkpoint_atom_v, std::uint64_t{10});
    run();
    CHECK(written() == lines{"saved 4", "end"});
    scheduler.trigger_timeouts();
    run();
    CHECK(written().empty());
  }
  SUBCASE("overdue") {
    scheduler.trigger_timeouts();
    run();
    CHECK(written() == lines{"copy 10 missed", "saved 4", "end"});
    caf::anon_send(recorder, checkpoint_atom_v, run_state{30, {}});
    run();
    CHECK(sent.size() == 2);
    caf::anon_send(recorder, checkpoint_atom_v, std::uint64_t{10});
    caf::anon_send(recorder, checkpoint_atom_v, run_state{40, {}});
    run();
    CHECK(sent == std::vector<std::uint64_t>{10, 20, 40});
    CHECK(written() == lines{"checkpoint 30", "checkpoint 40"});
  }
  caf::anon_send_exit(recorder, caf::exit_reason::kill);
  run();
}

}  // namespace recorder_test
