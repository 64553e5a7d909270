#include "troupe/runtime/plan/worker_of_plan.hpp"

#include "tests/support/doctest.hpp"
#include "tests/support/plans.hpp"

#include "troupe/runtime/emulation/costs.hpp"

#include <chrono>
#include <stdexcept>

namespace node_worker_of_plan_test {

using namespace troupe;
using testing::four_workers;

namespace {

run_id id(const topology::topology& file) {
  return run_id_of(make_plan(file, 60'000));
}

}  // namespace

TEST_CASE("a run keeps its id when it is continued with settings that may change") {
  const auto first = id(four_workers());
  auto file = four_workers();
  file.run.epochs = 7;
  CHECK(id(file) == first);
  file.run.epochs.reset();
  file.run.steps = 5;
  file.run.timeout = std::chrono::seconds{7};
  file.run.max_seconds = std::chrono::seconds{7};
  file.checkpoint.every = {3, false};
  file.nodes = {{.name = "a", .workers = 1}, {.name = "b", .workers = 3}};
  CHECK(id(file) == first);
}

TEST_CASE("runs of other seeds, numbers of workers or models have other ids") {
  const auto first = id(four_workers());
  auto seeded = four_workers();
  seeded.run.seed = 1;
  CHECK(id(seeded) != first);
  auto larger = four_workers();
  larger.workers.count = 5;
  CHECK(id(larger) != first);
  auto other = four_workers();
  other.model.name = "lenet";
  CHECK(id(other) != first);
}

TEST_CASE("the node of an actor is that of its worker, or the first one") {
  auto file = four_workers();
  file.nodes = {{.name = "a", .address = "127.0.0.1:1", .workers = 1},
                {.name = "b", .address = "127.0.0.1:2", .workers = 3}};
  auto plan = make_plan(file, 60'000);
  CHECK(node_of(plan, label_of_worker(0).id) == 0);
  CHECK(node_of(plan, label_of_compute(3).id) == 1);
  CHECK(node_of(plan, label_of_port("my server 7", 0, 1).id) == 1);
  CHECK(node_of(plan, label_of(role::evaluator).id) == 0);
  CHECK(node_of(plan, {.what = role::copies, .rank = 1}) == 1);
  for (const auto& actor : plan.actors) CHECK(node_of(plan, actor.label.id) == actor.node);
}

TEST_CASE("a gradient on a lane that belongs to no worker is an error") {
  const auto plan = make_plan(four_workers(), 60'000);
  emulation::costs costs{plan, std::chrono::milliseconds{1}, 1};
  const task gradient{.what = task::kind::advance, .gradients = 1};
  CHECK(costs.of(label_of_compute(3), gradient) > std::chrono::microseconds{0});
  CHECK_THROWS_AS(costs.of(label_of(role::evaluator), gradient), std::logic_error);
}

}  // namespace node_worker_of_plan_test
