// The devices on which a plan lets workers compute, on machines with any number of GPUs.
#include "tests/support/doctest.hpp"
#include "tests/support/plans.hpp"

#include "troupe/files/error.hpp"
#include "troupe/runtime/plan/plan.hpp"
#include "troupe/tools/drawing/drawing.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace plan_devices_test {

using namespace troupe;
using testing::four_workers;

namespace {

/// Describes a build with CUDA on a machine with so many GPUs.
device::census machine_with(std::size_t gpus) {
  return {.compiled = true,
          .version = "13.0",
          .gpus = std::vector<std::string>(gpus, "Test GPU"),
          .problem = gpus == 0 ? "no driver" : ""};
}

std::string refusal_on(const topology::topology& file, const device::census& machine) {
  try {
    make_plan(file, 60'000, machine);
  } catch (const input_error& error) {
    return error.what();
  }
  return "accepted";
}

std::string dealt(const std::vector<std::string>& device, std::size_t gpus) {
  auto file = four_workers();
  file.workers.device = device;
  std::string text;
  for (const auto& each : make_plan(file, 60'000, machine_with(gpus)).devices) text += each.str() + " ";
  return text;
}

}  // namespace

TEST_CASE("devices are dealt to the workers in turn") {
  CHECK(dealt({"auto"}, 0) == "cpu cpu cpu cpu ");
  CHECK(dealt({"auto"}, 1) == "cuda:0 cuda:0 cuda:0 cuda:0 ");
  CHECK(dealt({"cuda"}, 3) == "cuda:0 cuda:1 cuda:2 cuda:0 ");
  CHECK(dealt({"cuda:1"}, 2) == "cuda:1 cuda:1 cuda:1 cuda:1 ");
  CHECK(dealt({"cuda:1", "cpu"}, 2) == "cuda:1 cpu cuda:1 cpu ");
  CHECK(dealt({"cpu"}, 2) == "cpu cpu cpu cpu ");
}

TEST_CASE("devices are dealt anew in each node") {
  auto file = four_workers();
  file.workers.device = {"cuda"};
  file.nodes = {{.name = "a", .workers = 1}, {.name = "b", .workers = 3}};
  std::string text;
  for (const auto& each : make_plan(file, 60'000, machine_with(2)).devices) text += each.str() + " ";
  CHECK(text == "cuda:0 cuda:0 cuda:1 cuda:0 ");
}

TEST_CASE("a device that is not there is refused with what there is") {
  auto file = four_workers();
  file.workers.device = {"cuda:0"};
  CHECK(refusal_on(file, {}) ==
        "four.toml: workers.device = \"cuda:0\" requires CUDA, but this build does not include it; use \"cpu\", or a "
        "build with the CMake preset cuda");
  CHECK(refusal_on(file, machine_with(0)) ==
        "four.toml: workers.device = \"cuda:0\" requires a GPU, but CUDA finds none: no driver; use \"cpu\", or check "
        "that nvidia-smi lists the GPU");
  file.workers.device = {"cuda:0", "cuda:2"};
  CHECK(refusal_on(file, machine_with(2)) ==
        "four.toml: workers.device = [\"cuda:0\", \"cuda:2\"] names cuda:2, but this machine has 2 GPUs, cuda:0 and "
        "cuda:1; use one of these, or \"cuda\" for all of them");
  file.workers.device = {"tpu"};
  CHECK(refusal_on(file, machine_with(2)).find("workers.device is \"tpu\"; expected \"auto\"") != std::string::npos);
  file.workers.device = {};
  CHECK(refusal_on(file, machine_with(2)).find("workers.device is []; expected \"auto\"") != std::string::npos);
}

TEST_CASE("NCCL is refused where it cannot add up, with what to use instead") {
  auto file = four_workers();
  file.exchanges.front().options = {{"route", std::string("auto")}, {"engine", std::string("nccl")}};
  file.workers.device = {"cuda"};
  CHECK(refusal_on(file, machine_with(4)) == "accepted");
  CHECK(refusal_on(file, machine_with(2)) ==
        "four.toml: exchange: engine = \"nccl\" requires one GPU per worker, but workers 0 and 2 share cuda:0; use "
        "engine = "
        "\"troupe\", or give each worker its own GPU");
  auto mixed = file;
  mixed.workers.device = {"cuda:0", "cpu"};
  CHECK(refusal_on(mixed, machine_with(4)) ==
        "four.toml: exchange: engine = \"nccl\" requires GPUs, but worker 1 computes on the cpu; use engine = "
        "\"troupe\"");
  auto apart = file;
  apart.nodes = {{.name = "a", .workers = 2}, {.name = "b", .workers = 2}};
  CHECK(refusal_on(apart, machine_with(4)).find("does not support several [[node]]s") != std::string::npos);
  auto plain = file;
  plain.workers.device = {"cpu"};
  CHECK(refusal_on(plain, {}) ==
        "four.toml: exchange: engine = \"nccl\" requires CUDA, but this build does not include it; use engine = "
        "\"troupe\"");
}

TEST_CASE("the plan says where workers compute, and that GPUs keep no bits") {
  auto file = four_workers();
  file.workers.device = {"cuda"};
  const auto plan = make_plan(file, 60'000, machine_with(2));
  CHECK_FALSE(plan.promises_bits());
  CHECK(plan.deterministic());
  CHECK(describe(plan).find("on cuda:0 (2 workers), cuda:1 (2 workers)") != std::string::npos);
  CHECK(describe(plan).find("same bits   no: cuda:0 (2 workers), cuda:1 (2 workers) may sum in a different order") !=
        std::string::npos);
  file.workers.device = {"cpu", "cpu"};
  CHECK(describe(make_plan(file, 60'000, machine_with(2))).find("device cpu") != std::string::npos);
  CHECK(make_plan(file, 60'000, machine_with(2)).promises_bits());
  file.workers.device = {"cuda"};
  file.exchanges.front().options = {{"route", std::string("auto")}, {"engine", std::string("nccl")}};
  CHECK(describe(make_plan(file, 60'000, machine_with(4))).find("no: exchange (NCCL) may sum in a different order") !=
        std::string::npos);
}

}  // namespace plan_devices_test
