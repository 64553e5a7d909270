#include "troupe/actors/coordinator.hpp"

#include "tests/support/doctest.hpp"

#include <ATen/ops/full.h>
#include <caf/all.hpp>
#include <caf/scheduler/test_coordinator.hpp>

#include <chrono>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace troupe;

struct config : caf::actor_system_config {
  config() { set("scheduler.policy", caf::atom("testing")); }
};

/// Does its jobs at once.
class immediate_lane final : public lane {
 public:
  void post(caf::actor owner, task, job work) override {
    caf::anon_send(owner, done_atom_v, completion{std::make_shared<std::function<void()>>(work())});
  }
  std::shared_ptr<rendezvous> meeting_point() override { return nullptr; }  // no job waits
};

/// What a coordinator had evaluated, recorded and saved.
struct heard {
  std::vector<float> evaluated;
  std::vector<std::string> events;
  std::vector<float> saved, kept;
  std::vector<std::uint64_t> finished, granted;
  std::vector<record> lines;
  std::vector<run_state> checkpoints;
  std::vector<std::uint64_t> asked;  ///< Numbers of the requests for states.
  bool keeps_writing{false};         ///< No checkpoint is ever written to the end.
  std::vector<caf::typed_response_promise<std::uint64_t>> writing;
  std::function<evaluation(const snapshot&)> verdict = [](const snapshot& weights) {
    return evaluation{.step = weights.origin.step, .loss = 1, .accuracy = 0.5, .sample_count = 1};
  };
};

evaluator_actor::behavior_type evaluator(evaluator_actor::pointer, std::shared_ptr<heard> all) {
  return {[all](evaluate_atom, const snapshot& weights) {
            all->evaluated.push_back(weights.values[0].item<float>());
            return all->verdict(weights);
          },
          [](cancel_atom) {}, [](done_atom, const completion&) {}};
}

recorder_actor::behavior_type recorder(recorder_actor::pointer self, std::shared_ptr<heard> all) {
  return {[](progress_atom, rank_id, std::uint64_t) {},
          [all](record_atom, const record& line) {
            all->events.push_back(line.event);
            all->lines.push_back(line);
          },
          [all](keep_atom, const snapshot& best) { all->kept.push_back(best.values[0].item<float>()); },
          [](checkpoint_atom) {},
          [self, all](checkpoint_atom, const run_state& state) -> caf::result<std::uint64_t> {
            all->checkpoints.push_back(state);
            if (!all->keeps_writing) return state.step;
            all->writing.push_back(self->make_response_promise<std::uint64_t>());
            return all->writing.back();
          },
          [all](save_atom, const snapshot& result, const record& end) {
            all->saved.push_back(result.values[0].item<float>());
            all->events.push_back(end.event + " " + end.status);
            all->lines.push_back(end);
            return end.step;
          },
          [all](done_atom, const completion&) { all->writing.front().deliver(std::uint64_t{1}); }};
}

directed_worker::behavior_type worker(directed_worker::pointer, std::shared_ptr<heard> all) {
  return {[all](proceed_atom, std::uint64_t until) { all->granted.push_back(until); },
          [](assign_atom, const assignment&) {},
          [](halt_atom) { return std::uint64_t{1}; },
          [all](finish_atom, std::uint64_t step) { all->finished.push_back(step); },
          [](show_atom, std::uint64_t) {},
          [all](state_atom, std::uint64_t number) { all->asked.push_back(number); },
          [](restore_atom, const state_dict&) {}};
}

/// A coordinator of two workers, one epoch of four steps, evaluated after every step.
struct rehearsal {
  std::shared_ptr<heard> all = std::make_shared<heard>();
  config settings;
  caf::actor_system system{settings};
  caf::scheduler::test_coordinator& scheduler = dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());
  coordinator_actor coordinator;
  std::vector<caf::actor> members;

  explicit rehearsal(bool replicas_agree, coordinator_options options = {}) {
    options.when = {
        .steps = 4, .steps_per_epoch = 4, .evaluate_every = 1, .checkpoint_every = options.when.checkpoint_every};
    options.workers = 2;
    options.replicas = replicas_agree ? 1 : 2;
    options.replicas_agree = replicas_agree;
    options.layout.parameter_end = options.layout.total = 16;
    members = {caf::actor_cast<caf::actor>(system.spawn(evaluator, all)),
               caf::actor_cast<caf::actor>(system.spawn(recorder, all)),
               caf::actor_cast<caf::actor>(system.spawn(worker, all)),
               caf::actor_cast<caf::actor>(system.spawn(worker, all))};
    coordinator = spawn_coordinator(system, std::move(options), caf::actor_cast<evaluator_actor>(members[0]),
                                    caf::actor_cast<recorder_actor>(members[1]), std::make_unique<immediate_lane>());
    members.push_back(caf::actor_cast<caf::actor>(coordinator));
    caf::anon_send(coordinator, wire_atom_v,
                   std::vector<directed_worker>{caf::actor_cast<directed_worker>(members[2]),
                                                caf::actor_cast<directed_worker>(members[3])});
    run();
  }

  ~rehearsal() {
    for (const auto& member : members) caf::anon_send_exit(member, caf::exit_reason::kill);
    run();
  }

  void run() {
    while (scheduler.has_job()) scheduler.run_once();
  }
  void reach(std::uint32_t rank, std::uint64_t step, double data_wait = 0, double busy = 0) {
    caf::anon_send(
        coordinator, reached_atom_v,
        milestone{.rank = rank_id{rank}, .step = step, .sample_count = 1, .data_wait = data_wait, .busy = busy});
    run();
  }
  /// Both workers complete `step`, and wait there for a checkpoint.
  void arrive(std::uint64_t step) {
    complete(step, static_cast<float>(step));
    for (const std::uint32_t rank : {0U, 1U}) {
      caf::anon_send(coordinator, checkpoint_atom_v, rank_id{rank}, step);
      run();
    }
  }
  void answer(std::uint32_t rank, std::uint64_t number, std::uint64_t reported = 1) {
    state_dict state;
    state.put_count("reported", reported);
    state.put_count("number", number);
    caf::anon_send(coordinator, state_atom_v, rank_id{rank}, number, state);
    run();
  }
  /// Both workers complete `step`, with parameters that are all `value`.
  void complete(std::uint64_t step, float value) {
    reach(0, step);
    reach(1, step);
    show(0, step, value);
  }
  /// Worker `rank` shows parameters that are all `value`.
  void show(std::uint32_t rank, std::uint64_t step, float value) {
    caf::anon_send(coordinator, result_atom_v,
                   snapshot{{.sender = rank_id{rank}, .step = step}, at::full({16}, value)});
    run();
  }
};

}  // namespace

TEST_CASE("a step is evaluated once its milestones and its snapshot have come, in whichever order") {
  rehearsal here{true};
  SUBCASE("the snapshot first") {
    here.show(0, 1, 7);
    here.reach(0, 1);
    here.reach(1, 1);
  }
  SUBCASE("the snapshot last") {
    here.reach(0, 1);
    here.reach(1, 1);
    CHECK(here.all->evaluated.empty());
    here.show(0, 1, 7);
  }
  SUBCASE("the snapshot of the step after it before") {
    here.show(0, 2, 8);
    here.show(0, 1, 7);
    here.reach(1, 1);
    here.reach(0, 1);
  }
  CHECK(here.all->evaluated == std::vector<float>{7});
  CHECK(here.all->events == std::vector<std::string>{"start", "evaluation"});
}

TEST_CASE("where replicas differ, the mean of all is evaluated when the last has come") {
  rehearsal here{false};
  here.reach(0, 1);
  here.reach(1, 1);
  here.show(1, 1, 4);
  CHECK(here.all->evaluated.empty());
  here.show(0, 1, 2);
  CHECK(here.all->evaluated == std::vector<float>{3});
}

TEST_CASE("an interrupted run saves the snapshot of its last step, also where that comes last, and evaluates no more") {
  rehearsal here{true};
  SUBCASE("reported before the interruption") {
    here.reach(0, 1);
    here.reach(1, 1);
    caf::anon_send(here.coordinator, halt_atom_v);
    here.run();
    CHECK(here.all->finished == std::vector<std::uint64_t>{1, 1});
    CHECK(here.all->saved.empty());
    here.show(0, 1, 7);
  }
  SUBCASE("reported after it") {
    caf::anon_send(here.coordinator, halt_atom_v);
    here.run();
    here.show(0, 1, 7);
    here.reach(1, 1);
    here.reach(0, 1);
  }
  CHECK(here.all->evaluated.empty());
  CHECK(here.all->saved == std::vector<float>{7});
  CHECK(here.all->events.back() == "end interrupted");
}

namespace {

/// Accuracies in the order in which they are asked for.
std::function<evaluation(const snapshot&)> accuracies(std::vector<double> values) {
  return [values, next = std::size_t{0}](const snapshot& weights) mutable {
    return evaluation{.step = weights.origin.step, .loss = 1, .accuracy = values.at(next++), .sample_count = 1};
  };
}

coordinator_options stopping(std::optional<std::uint64_t> patience, std::optional<double> target) {
  coordinator_options options;
  options.stop.patience = patience;
  options.stop.target_accuracy = target;
  return options;
}

}  // namespace

TEST_CASE("the result of an evaluation that is better than all before is kept, also of the last one") {
  rehearsal here{true};
  SUBCASE("by accuracy") {
    here.all->verdict = accuracies({0.5, 0.7, 0.7, 0.8});
  }
  SUBCASE("by loss where samples stand for numbers, one that is no number never") {
    here.all->verdict = [](const snapshot& weights) {
      const double losses[] = {3, 2, std::numeric_limits<double>::quiet_NaN(), 1};
      return evaluation{.step = weights.origin.step, .loss = losses[weights.origin.step - 1], .sample_count = 1};
    };
  }
  for (std::uint64_t step = 1; step <= 4; ++step) here.complete(step, static_cast<float>(step));
  CHECK(here.all->kept == std::vector<float>{1, 2, 4});
  CHECK(here.all->saved == std::vector<float>{4});
}

TEST_CASE("patience runs out after so many evaluations without improvement") {
  rehearsal here{true, stopping(2, {})};
  here.all->verdict = accuracies({0.5, 0.6, 0.6, 0.55});
  for (std::uint64_t step = 1; step <= 4; ++step) here.complete(step, static_cast<float>(step));
  CHECK(here.all->events.back() == "end done");  // the last evaluation stops nothing any more
  CHECK(here.all->kept == std::vector<float>{1, 2});
}

TEST_CASE("patience and target stop a run early at the step of the verdict") {
  SUBCASE("patience") {
    rehearsal here{true, stopping(1, {})};
    here.all->verdict = accuracies({0.5, 0.5});
    here.complete(1, 1);
    here.complete(2, 2);
    CHECK(here.all->events.back() == "end stopped_early");
    CHECK(here.all->lines.back().step == 2);
    CHECK(here.all->saved == std::vector<float>{2});
    CHECK(here.all->kept == std::vector<float>{1});
  }
  SUBCASE("target, reached, missed, and reached twice at the end") {
    rehearsal here{true, stopping({}, 0.6)};
    here.all->verdict = accuracies({0.6, 0.5, 0.7, 0.6});
    for (std::uint64_t step = 1; step <= 4; ++step) here.complete(step, static_cast<float>(step));
    CHECK(here.all->events.back() == "end done");
  }
  SUBCASE("target, reached in two evaluations in a row") {
    rehearsal here{true, stopping({}, 0.6)};
    here.all->verdict = accuracies({0.5, 0.6, 0.7});
    for (std::uint64_t step = 1; step <= 3; ++step) here.complete(step, static_cast<float>(step));
    CHECK(here.all->events.back() == "end stopped_early");
    CHECK(here.all->lines.back().step == 3);
  }
}

TEST_CASE("lines say the learning rate of the step before, and the share of time that computes waited for data") {
  coordinator_options options;
  options.lr = 2;
  options.lr_over_time = {.warmup_steps = 4, .warmup_start = 0};
  rehearsal here{true, options};
  here.show(0, 1, 1);
  here.reach(0, 1, 0.5, 4);
  here.reach(1, 1, 1.5, 4);
  here.complete(2, 2);
  const auto& lines = here.all->lines;
  REQUIRE(lines.size() == 3);
  CHECK(!lines[0].lr);
  CHECK(lines[1].lr == 0);
  CHECK(lines[1].data_wait == 0.25);
  CHECK(lines[2].lr == 0.5);
  CHECK(!lines[2].data_wait);  // nothing was measured
  here.complete(3, 3);
  here.complete(4, 4);
  CHECK(here.all->lines.back().event == "end");
  CHECK(here.all->lines.back().lr == 1.5);
  CHECK(here.all->lines.back().data_wait == 0.25);  // of the whole run
}

namespace {

using std::chrono::seconds;

coordinator_options pausing() {
  coordinator_options options;
  options.pauses = true;
  return options;
}

/// Evaluations take so long, in virtual time.
void slow_down_evaluations(rehearsal& here, seconds by) {
  here.all->verdict = [&here, by](const snapshot& weights) {
    here.scheduler.clock().advance_time(by);
    return evaluation{.step = weights.origin.step, .loss = 1, .accuracy = 0.5, .sample_count = 1};
  };
}

/// Training times of the evaluations, in order.
std::vector<double> train_seconds_of(const heard& all) {
  std::vector<double> times;
  for (const auto& line : all.lines)
    if (line.event == "evaluation") times.push_back(line.train_seconds);
  return times;
}

}  // namespace

TEST_CASE("training time leaves out what workers wait for an evaluation") {
  const auto run_of = [](rehearsal& here) {
    slow_down_evaluations(here, seconds(3));
    for (std::uint64_t step = 1; step <= 4; ++step) {
      here.scheduler.clock().advance_time(seconds(2));
      here.complete(step, 1);
    }
    CHECK(train_seconds_of(*here.all) == std::vector<double>{2, 4, 6, 8});
    const auto& lines = here.all->lines;
    for (const auto& line : lines) {
      if (line.event == "start") continue;
      CHECK(line.samples_per_second == 1);  // two samples in two seconds, also of the whole run
      if (line.event == "epoch") CHECK(line.epoch_seconds == 8);
    }
    CHECK(lines.back().seconds == 8 + 3 * 3);  // the last evaluation is beyond the last step
    CHECK(lines.back().train_seconds == 8);
  };
  SUBCASE("because they pause for it") {
    rehearsal here{true, pausing()};
    run_of(here);
  }
  SUBCASE("because its verdict may stop them") {
    rehearsal here{true, stopping(9, {})};
    run_of(here);
  }
}

TEST_CASE("an evaluation that workers do not wait for is no break in their training") {
  rehearsal here{true};
  slow_down_evaluations(here, seconds(3));
  for (std::uint64_t step = 1; step <= 4; ++step) {
    here.scheduler.clock().advance_time(seconds(2));
    here.complete(step, 1);
  }
  CHECK(train_seconds_of(*here.all) == std::vector<double>{2, 7, 12, 17});
  CHECK(here.all->lines.back().train_seconds == here.all->lines.back().seconds);
}

TEST_CASE("training time stands still once two snapshots wait for the evaluator, and goes on with the next grant") {
  rehearsal here{true};
  const auto both_reach = [&](std::uint64_t step) {
    here.scheduler.clock().advance_time(seconds(2));
    here.reach(0, step);
    here.scheduler.clock().advance_time(seconds(1));  // one waits for the other, which is training
    here.reach(1, step);
  };
  both_reach(1);
  both_reach(2);
  here.scheduler.clock().advance_time(seconds(5));
  here.show(0, 1, 1);
  both_reach(3);
  here.show(0, 2, 1);
  both_reach(4);
  here.show(0, 3, 1);
  here.show(0, 4, 1);
  CHECK(train_seconds_of(*here.all) == std::vector<double>{3, 6, 9, 12});
  CHECK(here.all->lines.back().seconds == 17);
}

TEST_CASE("workers that pause are granted one evaluation at a time") {
  for (const bool pauses : {false, true}) {
    auto options = pausing();
    options.pauses = pauses;
    rehearsal here{true, options};
    CHECK(here.all->granted.back() == (pauses ? 1 : 2));
    here.complete(1, 1);
    CHECK(here.all->granted.back() == (pauses ? 2 : 3));
  }
}

TEST_CASE("the loss since the last event is on every line, that of a whole epoch on its own") {
  rehearsal here{true};
  const auto report = [&](std::uint32_t rank, std::uint64_t step, double loss_sum, std::int64_t correct) {
    caf::anon_send(here.coordinator, reached_atom_v,
                   milestone{.rank = rank_id{rank},
                             .step = step,
                             .loss_sum = loss_sum,
                             .sample_count = 4,
                             .correct = step == 3 ? 0 : correct,
                             .classified = step == 3 ? 0 : 8});
    here.run();
  };
  for (std::uint64_t step = 1; step <= 4; ++step) {
    report(0, step, 4.0 * static_cast<double>(step), static_cast<std::int64_t>(step));
    report(1, step, 12.0 * static_cast<double>(step), 4);
    here.show(0, step, 1);
  }
  constexpr double none = -1;
  std::vector<double> losses, accuracies, of_epochs;
  for (const auto& line : here.all->lines) {
    losses.push_back(line.train_loss.value_or(none));
    accuracies.push_back(line.train_accuracy.value_or(none));
    of_epochs.push_back(line.epoch_train_loss.value_or(none));
  }
  // start, four evaluations of 8 samples each, the epoch, the end
  CHECK(losses == std::vector<double>{none, 2, 4, 6, 8, 8, 8});
  CHECK(accuracies == std::vector<double>{none, 5 / 16.0, 6 / 16.0, none, 8 / 16.0, 8 / 16.0, 8 / 16.0});
  CHECK(of_epochs == std::vector<double>{none, none, none, none, none, 5, none});
}

TEST_CASE("an epoch says how long it took, other lines do not") {
  rehearsal here{true};
  here.complete(1, 1);
  here.complete(2, 2);
  here.scheduler.clock().advance_time(std::chrono::seconds(5));
  here.complete(3, 3);
  here.complete(4, 4);
  for (const auto& line : here.all->lines) {
    CAPTURE(line.event);
    CHECK(line.epoch_seconds.has_value() == (line.event == "epoch"));
    if (line.epoch_seconds) CHECK(*line.epoch_seconds == doctest::Approx(5));
  }
}

namespace {

coordinator_options with_checkpoints(std::uint64_t every) {
  coordinator_options options;
  options.when.checkpoint_every = every;
  return options;
}

}  // namespace

TEST_CASE("a checkpoint holds the states of all, and the workers continue while it is written") {
  rehearsal here{true, with_checkpoints(2)};
  here.all->keeps_writing = true;
  CHECK(here.all->granted == std::vector<std::uint64_t>{2, 2});
  here.complete(1, 1);
  here.all->granted.clear();
  here.arrive(2);
  CHECK(here.all->granted == std::vector<std::uint64_t>{2, 2});  // an evaluation allows more, the barrier does not
  CHECK(here.all->asked == std::vector<std::uint64_t>{1, 1});
  here.answer(1, 1);
  CHECK(here.all->checkpoints.empty());
  here.answer(0, 1);
  REQUIRE(here.all->checkpoints.size() == 1);
  const auto& made = here.all->checkpoints.front();
  CHECK(made.step == 2);
  REQUIRE(made.actors.size() == 3);
  CHECK((made.actors.contains("coordinator") && made.actors.contains("worker 0") && made.actors.contains("worker 1")));
  CHECK(here.all->granted.back() == 4);
}

TEST_CASE("a checkpoint that is due while another one is written is skipped") {
  rehearsal here{true, with_checkpoints(1)};
  here.all->keeps_writing = true;
  here.arrive(1);
  here.answer(0, 1);
  here.answer(1, 1);
  here.all->asked.clear();
  here.all->granted.clear();
  here.arrive(2);
  CHECK(here.all->asked.empty());
  CHECK(here.all->granted.back() == 3);
  caf::anon_send(caf::actor_cast<recorder_actor>(here.members[1]), done_atom_v, completion{});
  here.run();
  here.arrive(3);
  CHECK(here.all->asked == std::vector<std::uint64_t>{2, 2});
}

TEST_CASE("a halted run makes its checkpoint of the step at which it ends, with states requested after it") {
  rehearsal here{true, with_checkpoints(1)};
  here.arrive(1);
  here.answer(0, 1);
  caf::anon_send(here.coordinator, halt_atom_v);
  here.run();
  CHECK(here.all->asked.back() == 2);
  here.answer(1, 1);  // too late
  here.answer(0, 2);
  CHECK(here.all->checkpoints.empty());
  CHECK(here.all->finished.empty());
  here.answer(1, 2);
  REQUIRE(here.all->checkpoints.size() == 1);
  CHECK(here.all->checkpoints.front().step == 1);
  CHECK(here.all->checkpoints.front().actors.at("worker 1").count("number") == 2);
  CHECK(here.all->finished.size() == 2);
}

TEST_CASE("a checkpoint waits for a milestone that a worker's state has overtaken") {
  rehearsal here{true, with_checkpoints(1)};
  caf::anon_send(here.coordinator, halt_atom_v);
  here.run();
  here.show(0, 1, 7);
  here.reach(0, 1);
  here.answer(0, 1);
  here.answer(1, 1);
  CHECK(here.all->checkpoints.empty());
  here.reach(1, 1);
  REQUIRE(here.all->checkpoints.size() == 1);
  CHECK(here.all->checkpoints.front().actors.at("coordinator").count("reports") == 1);
  CHECK(here.all->events.back() == "end interrupted");
}
