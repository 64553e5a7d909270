#include "troupe/actors/coordinator.hpp"

#include "tests/support/doctest.hpp"

#include <ATen/ops/full.h>
#include <caf/all.hpp>
#include <caf/scheduler/test_coordinator.hpp>

#include <memory>
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
  void post(caf::actor owner, job work) override {
    caf::anon_send(owner, done_atom_v, completion{std::make_shared<std::function<void()>>(work())});
  }
  std::shared_ptr<rendezvous> meeting_point() override { return nullptr; }  // no job waits
};

/// What a coordinator had evaluated, recorded and saved.
struct heard {
  std::vector<float> evaluated;
  std::vector<std::string> events;
  std::vector<float> saved;
  std::vector<std::uint64_t> finished;
};

evaluator_actor::behavior_type evaluator(evaluator_actor::pointer, std::shared_ptr<heard> all) {
  return {[all](evaluate_atom, const snapshot& weights) {
            all->evaluated.push_back(weights.values[0].item<float>());
            return evaluation{.step = weights.origin.step, .loss = 1, .accuracy = 0.5, .sample_count = 1};
          },
          [](cancel_atom) {}, [](done_atom, const completion&) {}};
}

recorder_actor::behavior_type recorder(recorder_actor::pointer, std::shared_ptr<heard> all) {
  return {[](progress_atom, rank_id, std::uint64_t) {},
          [all](record_atom, const record& line) { all->events.push_back(line.event); },
          [all](save_atom, const snapshot& result, const record& end) {
            all->saved.push_back(result.values[0].item<float>());
            all->events.push_back(end.event + " " + end.status);
            return end.step;
          },
          [](done_atom, const completion&) {}};
}

directed_worker::behavior_type worker(directed_worker::pointer, std::shared_ptr<heard> all) {
  return {[](proceed_atom, std::uint64_t) {}, [](halt_atom) { return std::uint64_t{1}; },
          [all](finish_atom, std::uint64_t step) { all->finished.push_back(step); }};
}

/// A coordinator of two workers, one epoch of four steps, evaluated after every step.
struct rehearsal {
  std::shared_ptr<heard> all = std::make_shared<heard>();
  config settings;
  caf::actor_system system{settings};
  caf::scheduler::test_coordinator& scheduler = dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());
  coordinator_actor coordinator;
  std::vector<caf::actor> members;

  explicit rehearsal(bool replicas_agree) {
    coordinator_options options;
    options.when = {.steps = 4, .steps_per_epoch = 4, .evaluate_every = 1};
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
  void reach(std::uint32_t rank, std::uint64_t step) {
    caf::anon_send(coordinator, reached_atom_v, milestone{.rank = rank_id{rank}, .step = step, .sample_count = 1});
    run();
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
