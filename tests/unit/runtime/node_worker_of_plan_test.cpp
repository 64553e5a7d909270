#include "tests/support/doctest.hpp"
#include "tests/support/plans.hpp"

#include "troupe/runtime/node/worker_of_plan.hpp"

#include <chrono>

using namespace troupe;
using testing::four_workers;

namespace {

run_id id(const topology::topology& file) {
  return id_of(make_plan(file, 60'000));
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
