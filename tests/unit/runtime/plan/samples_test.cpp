// What a plan derives from the samples: their extents and targets, batches and epochs.
#include "tests/support/doctest.hpp"
#include "tests/support/plan_refusal.hpp"
#include "tests/support/plans.hpp"

#include "troupe/files/error.hpp"
#include "troupe/runtime/plan/plan.hpp"
#include "troupe/runtime/topology/load.hpp"
#include "troupe/tools/drawing/drawing.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace plan_samples_test {

using namespace troupe;
using testing::four_workers;
using testing::refusal;

TEST_CASE("a run without epochs and steps is one epoch") {
  auto file = four_workers();
  file.run.epochs.reset();
  CHECK(make_plan(file, 60'000).steps == 937);
}

TEST_CASE("a run of no steps is legal") {
  auto file = four_workers();
  file.run.epochs.reset();
  file.run.steps = 0;
  CHECK(make_plan(file, 60'000).steps == 0);
}

TEST_CASE("an evaluation interval counts in steps or in epochs") {
  auto file = four_workers();
  file.evaluate.every = {.count = 100, .in_epochs = false};
  CHECK(make_plan(file, 60'000).when.evaluate_every == 100);
  file.evaluate.every = {.count = 2, .in_epochs = true};
  CHECK(make_plan(file, 60'000).when.evaluate_every == 1874);
}

TEST_CASE("a global batch is divided among the workers") {
  auto file = four_workers();
  file.data.global_batch_size = 256;
  CHECK(make_plan(file, 60'000).sampling.batch_size == 64);
  file.data.global_batch_size = 255;
  CHECK(
      refusal(file) ==
      "four.toml: data.global_batch_size is 255, which 4 workers cannot share equally; expected a multiple of 4, such "
      "as 252 or 256");
  file.data.global_batch_size = 3;
  CHECK(refusal(file).ends_with("expected a multiple of 4, such as 4"));
}

TEST_CASE("a batch larger than a worker's share is refused with the largest that fits") {
  auto file = four_workers();
  file.data.batch_size = 9000;
  CHECK(refusal(file, 12'000) ==
        "four.toml: data.batch_size = 9000 with workers.count = 4 gives no full batch, because there are only 12000 "
        "samples; use at most "
        "3000");
  file.data.split = "all";
  CHECK(make_plan(file, 12'000).steps_per_epoch == 1);
  file.data.split = "strided";
  file.data.global_batch_size = 36'000;
  CHECK(refusal(file, 12'000) ==
        "four.toml: data.global_batch_size = 36000 with workers.count = 4 gives no full batch, because there are only "
        "12000 samples; use at "
        "most 12000");
}

TEST_CASE("micro-batches divide a worker's batch") {
  auto file = four_workers();
  file.data.micro_batch_size = 4;
  CHECK(make_plan(file, 60'000).micro_batches == 4);
  file.data.micro_batch_size = 5;
  CHECK(refusal(file).find(
            "data.micro_batch_size is 5, which does not divide a worker's batch of 16; expected for instance 4") !=
        std::string::npos);
}

TEST_CASE("a loss for classes is refused for numeric targets, at the loss") {
  auto file = four_workers();
  file.data.name = "tensors";
  file.model.name = "mlp";
  file.model.loss = "cross_entropy";
  data_facts facts{128};
  facts.kind = models::sample_kind::numbers;
  facts.sample_shape = {4};
  CHECK(
      refusal(file, facts) ==
      "four.toml: model.loss = \"cross_entropy\" does not fit the numeric targets of tensors; use \"mse\", or save the "
      "targets as int64 classes");
}

TEST_CASE("a width that the heads of a gpt do not divide is refused at the width") {
  const std::string text = "[data]\nname = \"tensors\"\n[model]\nname = \"gpt\"\n";
  data_facts facts{128};
  facts.kind = models::sample_kind::characters;
  facts.sample_shape = {6};
  facts.class_names = {"a", "b", "c"};
  CHECK(refusal(topology::parse(text, "t.toml", {"run.seed=1", "model.width=10"}), facts) ==
        "--set #2: model.width = 10 is not a multiple of model.heads = 4; use for instance 8 or 12");
}

TEST_CASE("a model returns scores for each sample, or for each position where these have targets") {
  auto file = four_workers();
  file.data.name = "tensors";
  file.model.name = "gpt";
  file.model.layers = 1;
  file.model.width = 8;
  file.model.heads = 2;
  data_facts facts{128};
  facts.kind = models::sample_kind::characters;
  facts.sample_shape = {6};
  facts.class_names = {"a", "b", "c"};
  CHECK(refusal(file, facts) ==
        "four.toml: model.name = \"gpt\" does not fit data.name = \"tensors\": for 2 samples of 6 it returns [2×6×3], "
        "but the loss cross_entropy requires [2×3]; change its last layer, or model.loss");
  facts.sequences = true;
  CHECK(refusal(file, facts) == "accepted");
  CHECK(describe(make_plan(file, facts)).find("128 training samples of 6 positions, 3 classes per position") !=
        std::string::npos);
}

TEST_CASE("a description says what the extents of samples count") {
  auto file = four_workers();
  file.data.name = "tensors";
  file.model = {};
  file.model.name = "mlp";
  data_facts facts{128};
  const auto said = [&](models::sample_kind kind, std::vector<std::int64_t> shape) {
    facts.kind = kind;
    facts.sample_shape = std::move(shape);
    return describe(make_plan(file, facts));
  };
  using models::sample_kind;
  CHECK(said(sample_kind::numbers, {7}).find("of 7 features, numeric targets\n") != std::string::npos);
  CHECK(said(sample_kind::numbers, {7, 5}).find("of 7×5, numeric targets\n") != std::string::npos);
  CHECK(said(sample_kind::images, {1, 4, 4}).find("of 1×4×4, numeric targets, not normalised") != std::string::npos);
  file.model = {};
  file.model.name = "matrix_completion";
  CHECK(said(sample_kind::sparse, {7, 5}).find("of 7×5 (users × items), numeric targets\n") != std::string::npos);
  file.model = {};
  file.model.name = "logistic";
  facts.class_names = {"-1", "1"};
  CHECK(said(sample_kind::sparse, {7}).find("of 7 columns, 2 classes\n") != std::string::npos);
}

TEST_CASE("more workers than samples are refused") {
  auto file = four_workers();
  file.workers.count = 13;
  CHECK(refusal(file, 12) ==
        "four.toml: workers.count = 13 leaves a worker without samples: mnist has only 12; use at most 12 workers");
}

TEST_CASE("epochs with more steps than can be counted are refused") {
  auto file = four_workers();
  file.run.epochs = 1'000'000;
  CHECK(refusal(file, 1'000'000'000'000).find("run.epochs = 1000000 is too many; use at most ") != std::string::npos);
  file.run.epochs = 1'000'001;
  CHECK(refusal(file) == "four.toml: run.epochs is 1000001; expected an integer from 0 to 1000000");
}

TEST_CASE("inputs are scaled as published, as given, or not at all") {
  auto file = four_workers();
  file.data.mean = {0.5};
  file.data.std = {0.25};
  CHECK(make_plan(file, 60'000).scale.std == std::vector{0.25});
  file.data.std = {0};
  CHECK(refusal(file) == "four.toml: data.std is [0.0]; expected a list of numbers, each above 0 and at most 1000000");
  file.data.std = {};
  CHECK(refusal(file) == "four.toml: data.mean is set without data.std; expected both");
  file.data.mean = {0.1, 0.2, 0.3};
  file.data.std = {1};
  CHECK(refusal(file) == "four.toml: data.mean has 3 numbers; expected 1, one for each channel of mnist");
  file.data.normalize = false;
  CHECK(refusal(file) == "four.toml: data.mean has no effect with data.normalize = false; remove one of the two keys");
  file.data.mean = file.data.std = {};
  CHECK(make_plan(file, 60'000).scale.mean.empty());
}

TEST_CASE("a missing data folder is wrong input") {
  auto file = four_workers();
  file.data.dir = "no-such-folder";
  CHECK_THROWS_AS(load_data(file), input_error);
}

}  // namespace plan_samples_test
