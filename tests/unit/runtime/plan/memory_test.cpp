// Sizes beyond any machine are refused when the plan is made, before anything of that size is allocated.
#include "tests/support/doctest.hpp"
#include "tests/support/plan_refusal.hpp"
#include "tests/support/plans.hpp"

#include "troupe/runtime/plan/memory_needs.hpp"
#include "troupe/runtime/plan/plan.hpp"

#include <string>

namespace plan_memory_test {

using namespace troupe;
using testing::four_workers;
using testing::refusal;

namespace {

bool says(const std::string& text, const std::string& words) {
  CAPTURE(text);
  return text.find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("a model that is larger than the memory is refused with its size") {
  auto file = four_workers();
  file.model.name = "mlp";
  file.model.width = 65'536;
  file.model.layers = 1000;
  const auto text = refusal(file);
  CHECK(says(text, "the model mlp has 4,290,"));  // slightly more than 999 · 65,536²
  CHECK(says(text, "a worker needs at least 31.2 TiB"));
  CHECK(says(text, "available on this machine"));
}

TEST_CASE("a batch that is larger than the memory is refused with the size that fits") {
  auto file = four_workers();
  file.data.name = "image_folder";
  file.data.batch_size = 1'000'000;
  file.model.name = "resnet20";
  data_facts facts{100'000'000};
  facts.sample_shape = {3, 4096, 4096};
  facts.class_names = {"a", "b"};
  CHECK(says(refusal(file, facts), "data.batch_size: a batch of 1,000,000 samples of 3×4096×4096 takes 183 TiB"));
  file.data.micro_batch_size = 500'000;
  CHECK(says(refusal(file, facts), "data.micro_batch_size: a batch of 500,000 samples of 3×4096×4096 takes 91.6 TiB"));
  file.data.batch_size = 4;
  file.data.micro_batch_size.reset();
  file.evaluate.batch_size = 1'000'000;
  facts.evaluated = 900'000;
  CHECK(says(refusal(file, facts), "evaluate.batch_size: a batch of 900,000 samples of 3×4096×4096 takes 165 TiB"));
}

TEST_CASE("workers on one machine need memory together") {
  auto file = four_workers();
  auto plan = make_plan(file, 60'000);
  check_workers(plan, {0});
  plan.layout.total = std::int64_t{1} << 40;
  CHECK_THROWS_WITH_AS(check_workers(plan, {0}), doctest::Contains("workers.count = 4 needs at least 32.0 TiB"),
                       input_error);
  file.nodes = {{.name = "a", .address = "127.0.0.1:4700", .workers = 1},
                {.name = "b", .address = "127.0.0.1:4701", .workers = 3}};
  plan = make_plan(file, 60'000);
  plan.layout.total = std::int64_t{1} << 40;
  CHECK_THROWS_WITH_AS(check_workers(plan, {0, 1}),
                       doctest::Contains("4 workers on this machine need at least 32.0 TiB"), input_error);
  CHECK_THROWS_WITH_AS(check_workers(plan, {1}), doctest::Contains("node.b.workers = 3 needs at least 24.0 TiB"),
                       input_error);
}

TEST_CASE("workers on a GPU need no memory of the host") {
  auto plan = make_plan(four_workers(), 60'000);
  plan.layout.total = std::int64_t{1} << 40;
  plan.devices = std::vector<c10::Device>(4, c10::Device{c10::kCUDA, 0});
  CHECK_NOTHROW(check_workers(plan, {0}));
  plan.devices[1] = c10::Device{c10::kCPU};
  CHECK_THROWS_WITH_AS(check_workers(plan, {0}), doctest::Contains("needs at least 8.0 TiB"), input_error);
}

}  // namespace plan_memory_test
