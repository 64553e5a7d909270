// The batches that result from data settings, and the settings that are rejected.
#include "troupe/runtime/plan/batches.hpp"

#include "tests/support/doctest.hpp"

#include "troupe/files/error.hpp"
#include "troupe/runtime/plan/plan.hpp"
#include "troupe/tools/drawing/drawing.hpp"

#include <string>

namespace plan_batches_test {

using namespace troupe;

namespace {

/// Workers that train a model on MNIST without an exchange.
topology::topology workers(std::int64_t count, std::int64_t batch_size, const std::string& model = "convnet") {
  topology::topology file;
  file.file = "t.toml";
  file.run.epochs = 2;
  file.model.name = model;
  file.data.name = "mnist";
  file.data.batch_size = batch_size;
  file.data.drop_last = false;
  file.workers = {.count = count, .loop = {"gradient", "apply"}, .device = {"cpu"}};
  return file;
}

data_facts mnist() {
  data_facts facts{60'000};
  facts.evaluated = 10'000;
  return facts;
}

std::string refusal(const topology::topology& file, const data_facts& facts = mnist()) {
  try {
    make_plan(file, facts);
  } catch (const input_error& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("an epoch that keeps its last batch has a step more, and check says what it has") {
  const auto plan = make_plan(workers(1, 64), mnist());
  CHECK(plan.steps_per_epoch == 938);
  CHECK(plan.steps == 1876);
  CHECK(plan.when.evaluate_every == 938);
  CHECK(describe(plan).find("1 × batch 64 = 64 samples per step (32 in the last step of an epoch)") !=
        std::string::npos);
  auto dropped = workers(1, 64);
  dropped.data.drop_last = true;
  CHECK(make_plan(dropped, mnist()).steps_per_epoch == 937);
  CHECK(describe(make_plan(dropped, mnist())).find("in the last step of an epoch") == std::string::npos);
  const auto three = make_plan(workers(3, 64), mnist());
  CHECK(three.steps_per_epoch == 313);  // 20,000 = 312 · 64 + 32
  CHECK(describe(three).find("= 192 samples per step (96 in the last step of an epoch)") != std::string::npos);
}

TEST_CASE("a padded epoch has as many samples for every worker") {
  auto file = workers(7, 100);
  CHECK(make_plan(file, mnist()).steps_per_epoch == 86);  // 8571
  file.data.batch_size = 8572;
  CHECK(make_plan(file, mnist()).steps_per_epoch == 1);
  file.data.remainder = "pad";
  file.data.drop_last = true;
  CHECK(make_plan(file, mnist()).steps_per_epoch == 1);  // 8572 = ceil(60,000 / 7)
  file.data.remainder = "drop";
  CHECK(refusal(file).find("gives no full batch, because there are only 60000 samples; use at most 8571") !=
        std::string::npos);
  auto many = workers(5, 1);
  many.data.remainder = "pad";
  CHECK(make_plan(many, 2).steps_per_epoch == 1);
  many.data.remainder = "drop";
  CHECK(refusal(many, 2).find("leaves a worker without samples") != std::string::npos);
}

TEST_CASE("passes are those of micro-batches, fewer in the last step of an epoch") {
  auto file = workers(1, 64);
  CHECK(passes_of(make_plan(file, mnist())).of_epoch() == 938);
  file.data.micro_batch_size = 16;
  const auto passes = passes_of(make_plan(file, mnist()));
  CHECK(passes.of_step == 4);
  CHECK(passes.of_last == 2);
  CHECK(passes.of_epoch() == 937 * 4 + 2);
}

TEST_CASE("an evaluation is divided and shortened as the file says, and check says so") {
  auto file = workers(3, 64);
  CHECK(shares_text(make_plan(file, mnist())).empty());
  file.evaluate.split = "workers";
  const auto how = evaluation_of(make_plan(file, mnist()));
  CHECK(how.shares == 3);
  CHECK_FALSE(how.drop_last);
  CHECK(how.batch_size == 1000);
  CHECK(describe(make_plan(file, mnist()))
            .find("evaluated on the 10,000 test samples, divided into 3 shares of 3,334 whose results are averaged; "
                  "data.validation") != std::string::npos);
  file.evaluate.drop_last = true;
  CHECK(shares_text(make_plan(file, mnist())) ==
        ", divided into 3 shares of 3,334 whose results are averaged, without the last 334 of each share");
  file.evaluate.split = "whole";
  file.evaluate.batch_size = 999;
  CHECK(shares_text(make_plan(file, mnist())) == ", without the last 10");
  file.evaluate.batch_size = 1000;
  CHECK(shares_text(make_plan(file, mnist())).empty());
}

TEST_CASE("an evaluation that drops all there is is refused with the numbers") {
  auto file = workers(4, 64);
  file.evaluate.drop_last = true;
  file.evaluate.batch_size = 10'001;
  CHECK(refusal(file) ==
        "t.toml: evaluate.drop_last = true leaves nothing to evaluate: evaluate.batch_size = 10001 exceeds the "
        "10,000 samples that are evaluated; use at most 10000");
  file.evaluate.batch_size = 2501;
  CHECK(refusal(file) == "accepted");
  file.evaluate.split = "workers";
  CHECK(refusal(file) ==
        "t.toml: evaluate.drop_last = true leaves nothing to evaluate: evaluate.batch_size = 2501 exceeds a share "
        "of 2,500 samples (10,000 are evaluated, divided among 4 workers); use at most 2500");
  file.evaluate.batch_size = 2500;
  CHECK(refusal(file) == "accepted");
  file.evaluate.drop_last = false;
  file.evaluate.batch_size = 100'000;
  CHECK(refusal(file) == "accepted");
}

// In the last stage of resnet18, images of 28 pixels shrink to one pixel.
TEST_CASE("a last batch of one sample is refused where batch norm would see one value of each channel") {
  const auto found = refusal(workers(1, 64, "resnet18"), 65);
  CHECK(found.find("t.toml: data.drop_last = false leaves a last batch of one sample, on which resnet18 cannot be "
                   "trained: batch norm needs more than one value per channel in training") == 0);
  CHECK(found.find("; use another data.batch_size, or data.drop_last = true") != std::string::npos);
  CHECK(refusal(workers(1, 64, "resnet18"), 66) == "accepted");
  CHECK(refusal(workers(1, 64, "resnet20"), 65) == "accepted");  // its maps have 7 pixels there
  CHECK(refusal(workers(1, 64), 65) == "accepted");
  auto parts = workers(1, 64, "resnet18");
  parts.data.micro_batch_size = 32;
  CHECK(refusal(parts, 64 + 33).find("a last micro-batch of one sample") != std::string::npos);
  CHECK(refusal(parts, 64 + 33).find("; use another data.micro_batch_size") != std::string::npos);
  parts.data.drop_last = true;
  CHECK(refusal(parts, 64 + 33) == "accepted");
}

TEST_CASE("norms of several workers have their last batches of one together") {
  auto file = workers(2, 64, "resnet18");
  file.workers.loop = {"gradient", "exchange", "apply"};
  file.exchanges = {
      {.name = "exchange", .kind = "all_reduce", .sends = "", .options = {{"route", std::string("auto")}}}};
  CHECK(refusal(file, 130).find("of one sample") != std::string::npos);
  file.model.sync_batch_norm = true;
  CHECK(refusal(file, 130) == "accepted");
}

}  // namespace plan_batches_test
