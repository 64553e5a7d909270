// When the messages of a job are sent in virtual time: at the moment of the job at which they would be ready.
#include "troupe/runtime/simulation/simulated_lanes.hpp"

#include "tests/support/doctest.hpp"
#include "tests/support/stepped_system.hpp"

#include "troupe/runtime/simulation/simulated_cores.hpp"

#include <caf/all.hpp>
#include <caf/scheduler/test_coordinator.hpp>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace node_simulated_lanes_test {

namespace {

using namespace troupe;
using namespace std::chrono_literals;
using std::chrono::microseconds;

/// Gradients of 900 µs each, after copies of 1 µs per element.
microseconds length_of(const actor_label&, const task& what) {
  return what.gradients * 900us + microseconds{what.elements};
}

caf::behavior runs_completions(caf::event_based_actor*) {
  return {[](done_atom, const completion& done) { (*done.run)(); }};
}

/// Lanes of one owner, and the times at which their jobs sent messages.
struct virtual_stage {
  testing::stepped_config config;
  caf::actor_system system{config};
  caf::scheduler::test_coordinator& scheduler = dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());
  caf::actor owner = system.spawn(runs_completions);
  simulated_lanes lanes;
  std::map<std::string, microseconds> sent;

  explicit virtual_stage(std::shared_ptr<simulated_cores> cores = nullptr)
      : lanes(1, {.duration_of = length_of,
                  .cores_of = [cores](const actor_label&) { return cores; },
                  .slowdown_of = [](const actor_label& owner) { return owner.name == "slow" ? 4.0 : 1.0; }}) {}

  ~virtual_stage() {
    caf::anon_send_exit(owner, caf::exit_reason::kill);
    scheduler.run();
  }

  microseconds now() const {
    return std::chrono::duration_cast<microseconds>(scheduler.clock().now().time_since_epoch()) - start;
  }

  std::function<void()> mark(const std::string& what) {
    return [this, what] { sent[what] = now(); };
  }

  void run() {
    do scheduler.run();
    while (scheduler.trigger_timeout());
  }

  const microseconds start = std::chrono::duration_cast<microseconds>(scheduler.clock().now().time_since_epoch());
};

}  // namespace

TEST_CASE("what a job sends leaves in proportion to the gradients that it has computed by then") {
  virtual_stage stage;
  const auto lane = stage.lanes.make({{}, "compute 0"});
  for (const auto* job : {"first", "second"})
    lane->post(stage.owner, {.what = task::kind::advance, .gradients = 2, .elements = 100},
               [&stage, name = std::string{job}, clock = lane->clock()] {
                 clock->when_computed(0.5, stage.mark(name + ", half of one"));
                 clock->when_computed(1.5, stage.mark(name + ", half of the other"));
                 clock->when_computed(2, stage.mark(name + ", both"));
                 return stage.mark(name + ", result");
               });
  stage.run();
  // 100 µs of copying, then twice 900 µs.
  CHECK(stage.sent == std::map<std::string, microseconds>{{"first, half of one", 550us},
                                                          {"first, half of the other", 1450us},
                                                          {"first, both", 1900us},
                                                          {"first, result", 1900us},
                                                          {"second, half of one", 2450us},
                                                          {"second, half of the other", 3350us},
                                                          {"second, both", 3800us},
                                                          {"second, result", 3800us}});
}

TEST_CASE("lanes share cores equally, so that more lanes than cores slow each other down") {
  virtual_stage stage{std::make_shared<simulated_cores>(2)};
  const auto job = [&stage](lane& where, const std::string& name, std::uint64_t gradients) {
    where.post(stage.owner, {.what = task::kind::advance, .gradients = gradients},
               [&stage, name, clock = where.clock()] {
                 clock->when_computed(1.0 / 3, stage.mark(name + " sends"));
                 return stage.mark(name);
               });
  };
  const auto one = stage.lanes.make({{}, "one"}), two = stage.lanes.make({{}, "two"}),
             three = stage.lanes.make({{}, "three"});
  SUBCASE("for as long as all have work") {
    job(*one, "one", 1), job(*two, "two", 1), job(*three, "three", 2), job(*one, "one again", 1);
    stage.run();
    // With three lanes, each gets two thirds of a core: 900 µs of work take 1,350 µs. Then two lanes have a core each.
    CHECK(stage.sent == std::map<std::string, microseconds>{{"one sends", 450us},
                                                            {"two sends", 450us},
                                                            {"three sends", 450us},
                                                            {"one", 1350us},
                                                            {"two", 1350us},
                                                            {"one again sends", 1650us},
                                                            {"one again", 2250us},
                                                            {"three", 2250us}});
  }
  SUBCASE("and a worker that is slowed down does nothing after it has computed") {
    const auto slow = stage.lanes.make({{}, "slow"});
    job(*slow, "slow", 1), job(*one, "one", 1), job(*two, "two", 2);
    stage.run();
    CHECK(stage.sent.at("slow sends") == 450us);
    CHECK(stage.sent.at("one") == 1350us);
    CHECK(stage.sent.at("two") == 2250us);
    CHECK(stage.sent.at("slow") == 1350us + 3 * 900us);
  }
  SUBCASE("and a lane that ends gives up its share") {
    auto ending = stage.lanes.make({{}, "ending"});
    job(*one, "one", 1), job(*two, "two", 1), job(*three, "three", 1), job(*ending, "ending", 1);
    ending.reset();
    stage.run();
    CHECK(stage.sent.at("one") == 1350us);
    CHECK(stage.sent.count("ending") == 0);
  }
}

TEST_CASE("a job that waits for its owner leaves its core to others") {
  virtual_stage stage{std::make_shared<simulated_cores>(1)};
  const auto waiting = stage.lanes.make({{}, "waiting"}), other = stage.lanes.make({{}, "other"});
  const auto meeting = waiting->meeting_point();
  waiting->post(
      stage.owner, {.what = task::kind::advance, .gradients = 1}, [&stage, meeting, clock = waiting->clock()] {
        clock->when_computed(1.0 / 3, [&stage, meeting] {
          stage.mark("asks")();
          caf::delayed_anon_send(stage.owner, 5000us, done_atom_v,
                                 completion{std::make_shared<std::function<void()>>([meeting] { meeting->resume(); })});
        });
        meeting->wait();
        return stage.mark("waiting");
      });
  other->post(stage.owner, {.what = task::kind::advance, .gradients = 1}, [&stage] { return stage.mark("other"); });
  stage.run();
  // Each has half of the core until 600 µs. Then the other lane has the whole core.
  CHECK(stage.sent ==
        std::map<std::string, microseconds>{{"asks", 600us}, {"other", 1200us}, {"waiting", 600us + 5000us + 600us}});
}

TEST_CASE("what is left of a job that has waited begins when it is resumed") {
  virtual_stage stage;
  const auto lane = stage.lanes.make({{}, "compute 0"});
  const auto meeting = lane->meeting_point();
  lane->post(stage.owner, {.what = task::kind::advance, .gradients = 1}, [&stage, meeting, clock = lane->clock()] {
    clock->when_computed(1.0 / 3, [&stage, meeting] {
      stage.mark("asks")();
      caf::delayed_anon_send(stage.owner, 5000us, done_atom_v,
                             completion{std::make_shared<std::function<void()>>([meeting] { meeting->resume(); })});
    });
    meeting->wait();
    clock->when_computed(2.0 / 3, stage.mark("goes on"));
    return stage.mark("result");
  });
  stage.run();
  CHECK(stage.sent ==
        std::map<std::string, microseconds>{{"asks", 300us}, {"goes on", 5000us + 600us}, {"result", 5000us + 900us}});
}

TEST_CASE("a time that no clock holds is the longest delay, which ends a simulation, and is not left out") {
  const auto longest_wait = [](microseconds length, double slowdown, std::size_t workers, std::size_t cores) {
    testing::stepped_config config;
    caf::actor_system system{config};
    auto& scheduler = dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());
    const auto owner = system.spawn(runs_completions);
    const auto shared = cores == 0 ? nullptr : std::make_shared<simulated_cores>(cores);
    simulated_lanes lanes{1,
                          {.duration_of = [=](const actor_label&, const task&) { return length; },
                           .cores_of = [=](const actor_label&) { return shared; },
                           .slowdown_of = [=](const actor_label&) { return slowdown; }}};
    std::vector<std::unique_ptr<lane>> all;
    for (std::size_t i = 0; i < workers; ++i) {
      all.push_back(lanes.make({{}, "compute " + std::to_string(i)}));
      all.back()->post(owner, {.what = task::kind::advance, .gradients = 1}, [] { return [] {}; });
    }
    scheduler.run();
    auto longest = 0h;
    for (auto before = scheduler.clock().now(); longest < longest_delay && scheduler.trigger_timeout();
         before = scheduler.clock().now()) {
      longest = std::max(longest, std::chrono::duration_cast<std::chrono::hours>(scheduler.clock().now() - before));
      scheduler.run();
    }
    caf::anon_send_exit(owner, caf::exit_reason::kill);
    scheduler.run();
    return longest;
  };
  CHECK(longest_wait(1h, 10, 1, 0) == 9h);
  CHECK(longest_wait(10'000h, 1e6, 1, 0) == longest_delay);  // 10^10 hours: 3.6·10^19 µs
  CHECK(longest_wait(10'000h, 1e6, 1, 1) == longest_delay);
  CHECK(longest_wait(longest_delay, 1, 4000, 1) == longest_delay);  // on one core: 3.5·10^9 hours
}

}  // namespace node_simulated_lanes_test
