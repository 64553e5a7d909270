#include "tests/support/doctest.hpp"
#include "tests/support/plans.hpp"

#include "troupe/runtime/plan/derive.hpp"

#include <ATen/ops/log_softmax.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>

namespace plan_warnings_test {

using namespace troupe;
using testing::four_workers;

namespace {

std::vector<std::string> warnings(const topology::topology& file, const data_facts& facts = 60'000) {
  return make_plan(file, facts).warnings;
}

bool warns(const topology::topology& file, const std::string& words, const data_facts& facts = 60'000) {
  const auto found = warnings(file, facts);
  CAPTURE(words);
  return found.size() == 1 && found[0].find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("a usual plan has no warnings") {
  CHECK(warnings(four_workers()).empty());
  auto one = four_workers();
  one.workers = {.count = 1, .loop = {"gradient", "apply"}, .device = {"cpu"}};
  one.exchanges.clear();
  CHECK(warnings(one).empty());
}

TEST_CASE("workers without an exchange are named") {
  auto file = four_workers();
  file.exchanges[0].members = {"w0", "w1", "w2"};
  CHECK(warns(file, "w3 takes part in no exchange"));
  file.exchanges.clear();
  file.workers.loop = {"gradient", "apply"};
  CHECK(warns(file, "no exchange connects the 4 workers"));
}

TEST_CASE("optimizer settings without effect are named") {
  auto file = four_workers();
  file.optimizer.lr = 0;
  CHECK(warns(file, "optimizer.lr = 0"));
  file = four_workers();
  file.optimizer.decay_min_dims = 2;
  CHECK(warns(file, "optimizer.decay_min_dims has no effect"));
  file.optimizer.weight_decay = 0.1;
  CHECK(warnings(file).empty());
  file.optimizer.schedule_by = "epoch";
  CHECK(warns(file, "optimizer.schedule_by has no effect"));
  file.optimizer.warmup_epochs = 1;
  CHECK(warnings(file).empty());
}

TEST_CASE("a batch larger than any class of a worker is named, where workers have few classes") {
  auto file = four_workers();
  file.data.split = "by_label";
  data_facts facts{400};
  facts.class_counts = {{60, 40, 0, 0}, {0, 50, 50, 0}, {0, 0, 50, 50}, {0, 0, 10, 90}};
  file.data.batch_size = 90;
  CHECK(warnings(file, facts).empty());
  file.data.batch_size = 91;
  CHECK(warns(file, "data.batch_size = 91 is larger", facts));
  file.data.split = "dirichlet";
  CHECK(warnings(file, facts).empty());
}

TEST_CASE("steps in which no exchange takes place are named") {
  auto file = four_workers();
  file.exchanges.push_back(file.exchanges.front());
  file.exchanges[1].name = "average";
  file.exchanges[1].sends = "parameters";
  file.exchanges[1].every = {8, false};
  file.workers.loop = {"gradient", "exchange", "apply", "average"};
  file.exchanges[0].until = {100, false};
  CHECK(warnings(file).empty());
  for (const std::uint64_t from : {90, 100}) {
    file.exchanges[1].from = {from, false};
    CHECK(warnings(file).empty());
  }
  file.exchanges[1].from = {120, false};
  CHECK(warns(file, "no exchange takes place in steps 101 to 120"));
  file.exchanges[0].from = {40, false};
  file.exchanges[1].from = {100, false};
  CHECK(warns(file, "no exchange takes place in steps 1 to 40"));
  file.exchanges[0].from = {};
  file.exchanges[1].until = {200, false};
  CHECK(warns(file, "no exchange takes place in steps 201 to "));
  file.exchanges.pop_back();
  file.workers.loop.pop_back();
  CHECK(warns(file, "no exchange takes place in steps 101 to "));
}

TEST_CASE("a key that is set but has no effect causes a warning") {
  auto file = four_workers();
  file.given.places = {
      {"data.batch_size", ""}, {"evaluate.target_hold", ""}, {"run.join_timeout", ""}, {"exchange.exchange.route", ""}};
  CHECK(warnings(file).empty());
  file.given.places["model.layers"] = "";
  CHECK(warns(file,
              "model.layers has no effect in this topology: it is used only by mlp (hidden layers, 2 by default), "
              "gpt (blocks, 4 by default) and wide_resnet (blocks per group, 2 by default)"));
  file.given.places = {{"exchange.exchange.bucket_mb", ""}};
  CHECK(warns(file, "exchange.bucket_mb has no effect"));
  file.given.places.clear();
  file.run.verify_every = 7;
  CHECK(warnings(file).empty());
  file.exchanges.front().every = {2, false};
  CHECK(warns(file, "run.verify_every has no effect"));
  file.exchanges.front().every = {};
  file.run = {};
  file.evaluate.target_hold = 3;
  CHECK(warns(file, "evaluate.target_hold has no effect"));
  file.evaluate = {};
  file.run.join_timeout = std::chrono::seconds(1);
  CHECK(warns(file, "run.join_timeout has no effect"));
  file.run = {};
  file.run.silence = std::chrono::seconds(1);
  CHECK(warns(file, "run.silence has no effect"));
}

TEST_CASE("a node that listens elsewhere than at its address causes a warning") {
  auto file = four_workers();
  const auto listening = [&](const std::string& address, const std::string& listen) {
    file.nodes = {{.name = "a", .address = address, .listen = listen, .workers = 2},
                  {.name = "b", .address = "127.0.0.1:0", .workers = 2}};
    return file;
  };
  CHECK(warnings(listening("127.0.0.1:4700", "")).empty());
  CHECK(warnings(listening("127.0.0.1:4700", "localhost:4700")).empty());
  CHECK(warnings(listening("10.0.0.1:4700", "0.0.0.0:4700")).empty());
  CHECK(warns(listening("127.0.0.1:4700", "127.0.0.1:4800"),
              "node.a.listen = \"127.0.0.1:4800\" does not accept connections to 127.0.0.1:4700, the address of the "
              "node, unless another program forwards them; remove listen"));
  CHECK(warns(listening("127.0.0.1:4700", "127.0.0.1:0"), "node.a.listen"));
  CHECK(warns(listening("127.0.0.1:4700", "127.0.0.2:4700"), "node.a.listen"));
}

TEST_CASE("outputs that are probabilities are found, under cross-entropy only") {
  const auto scores = at::randn({2, 10});
  CHECK(warnings_of_output(at::softmax(scores, 1), models::loss_function::cross_entropy).size() == 1);
  CHECK(warnings_of_output(scores, models::loss_function::cross_entropy).empty());
  CHECK(warnings_of_output(at::log_softmax(scores, 1), models::loss_function::cross_entropy).empty());
  CHECK(warnings_of_output(at::softmax(scores, 1), models::loss_function::nll).empty());
  CHECK(warnings_of_output(at::sigmoid(at::randn({2})), models::loss_function::binary_cross_entropy).empty());
}

TEST_CASE("what would happen only after the end of the run causes a warning") {
  auto file = four_workers();
  const auto steps = make_plan(file, 60'000).steps;
  file.exchanges[0].sends = "parameters";
  file.workers.loop = {"gradient", "apply", "exchange"};
  file.exchanges[0].every = {steps, false};
  CHECK(warnings(file).empty());
  file.exchanges[0].every = {steps + 1, false};
  CHECK(warns(file, "the exchange \"exchange\" never takes place: it is first due in step 2,812"));
  file = four_workers();
  file.optimizer.warmup_epochs = 3;
  CHECK(warns(file, "optimizer.warmup_epochs lasts 2,811 steps"));
  file.optimizer.warmup_epochs = 0;
  file.optimizer.schedule = "step";
  file.optimizer.decay_epochs = {80, 120};
  CHECK(warns(file, "optimizer.decay_epochs begins at step 74,960"));
  file.optimizer.decay_epochs = {2};
  CHECK(warnings(file).empty());
}

}  // namespace plan_warnings_test
