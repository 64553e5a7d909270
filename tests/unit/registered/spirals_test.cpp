// Kinds that a program has registered, here those of examples/own_model: as keys of the topology file, in plans, and by
// themselves.
#include "tests/support/doctest.hpp"

#include "troupe/algorithms/rules/missing_gradients.hpp"
#include "troupe/algorithms/training/optimizer_kinds.hpp"
#include "troupe/data/sets/dataset.hpp"
#include "troupe/files/error.hpp"
#include "troupe/files/json.hpp"
#include "troupe/models/networks/module.hpp"
#include "troupe/models/storage/flat.hpp"
#include "troupe/runtime/plan/plan.hpp"
#include "troupe/runtime/topology/canonical.hpp"
#include "troupe/runtime/topology/load.hpp"
#include "troupe/runtime/topology/reference.hpp"
#include "troupe/runtime/topology/schema.hpp"
#include "troupe/tools/drawing/drawing.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

void register_spirals();  // in examples/own_model/spirals.cpp

namespace spirals_test {

using namespace troupe;

namespace {

/// A linear layer after LibTorch's own dropout and batch norm, with a buffer of each type.
struct plain_module : torch::nn::Module {
  explicit plain_module(double p)
      : linear(register_module("linear", torch::nn::Linear(2, 2))),
        norm(register_module("norm", torch::nn::BatchNorm1d(2))),
        drop(register_module("drop", torch::nn::Dropout(p))) {
    register_buffer("table", torch::arange(4));
  }
  at::Tensor forward(const at::Tensor& x) { return norm(linear(drop(x))); }
  torch::nn::Linear linear;
  torch::nn::BatchNorm1d norm;
  torch::nn::Dropout drop;
};

/// Stochastic gradient Langevin dynamics, with LibTorch's own generator.
struct langevin final : optimizer {
  void step(const at::Tensor& weights, const at::Tensor& gradient, double, std::uint64_t) override {
    at::Tensor(weights).sub_(gradient + at::randn_like(weights), 0.01);
  }
  state_dict state() const override { return {}; }
  void restore(const state_dict&) override {}
};

void register_all() {
  register_spirals();
  const auto plain = [](const std::string& name, double p) {
    models::register_network({.name = name, .explanation = "A module of LibTorch.", .make = [p](const auto&) {
                                return models::as_network(std::make_shared<plain_module>(p));
                              }});
  };
  plain("plain", 0);
  plain("dropping", 0.5);
  models::register_network({.name = "wide_numbers", .explanation = "Parameters of float64.", .make = [](const auto&) {
                              auto module = std::make_shared<plain_module>(0);
                              module->to(at::kDouble);
                              return models::as_network(module);
                            }});
  models::register_loss({.name = "of_vectors",
                         .explanation = "No mean.",
                         .mean = [](const auto& output, const auto&, const auto&) { return output.sum(1); },
                         .takes = models::loss_input::any});
  models::register_loss({.name = "pinball",
                         .explanation = "For two quantiles, or any number of them.",
                         .mean = [](const auto& output, const auto&, const auto&) { return output.abs().mean(); },
                         .takes = models::loss_input::any});
  models::register_loss({.name = "constant",
                         .explanation = "Does not depend on the output.",
                         .mean = [](const auto&, const auto&, const auto&) { return at::ones({}); },
                         .takes = models::loss_input::any});
  models::register_loss(
      {.name = "dropping",
       .explanation = "Draws.",
       .mean = [](const auto& output, const auto&, const auto&) { return at::dropout(output, 0.5, true).mean(); },
       .takes = models::loss_input::any});
  models::register_network({.name = "frozen", .explanation = "With a frozen weight.", .make = [](const auto&) {
                              auto module = std::make_shared<plain_module>(0);
                              module->linear->weight.requires_grad_(false);
                              return models::as_network(module);
                            }});
  register_optimizer({.name = "langevin", .explanation = "Adds noise.", .make = [](const auto&) {
                        return std::make_unique<langevin>();
                      }});
  register_optimizer({.name = "wrong_default",
                      .explanation = "Its default is not a number.",
                      .make = find_optimizer("sgd")->make,
                      .settings = {{"beta", setting_type::real, "yes", "A number."}}});
  register_optimizer({.name = "typed_defaults",
                      .explanation = "Defaults without quotes.",
                      .make = find_optimizer("sgd")->make,
                      .settings = {{"text", setting_type::text, "5", "A text."},
                                   {"file", setting_type::path, "a/b", "A path."},
                                   {"column", setting_type::columns, "x", "Columns."}}});
  models::register_network({.name = "nothing", .explanation = "No network.", .make = [](const auto&) {
                              return std::unique_ptr<models::network>{};
                            }});
  models::register_network(
      {.name = "failing", .explanation = "Throws.", .make = [](const auto&) -> std::unique_ptr<models::network> {
         throw std::out_of_range("no such table");
       }});
  register_optimizer({.name = "nothing", .explanation = "No optimizer.", .make = [](const auto&) {
                        return std::unique_ptr<optimizer>{};
                      }});
  const auto sets = [](const std::string& name, const at::Tensor& targets) {
    data::register_dataset({.name = name, .explanation = "Zeros.", .load = [targets](const auto&) {
                              const auto inputs = at::zeros({targets.size(0), 2});
                              return data::dataset_pair{.train = std::make_shared<data::dataset>(
                                                            data::dataset{.inputs = inputs, .targets = targets})};
                            }});
  };
  sets("three", at::arange(60) % 3);
  sets("numbers", at::zeros({60}));
  register_optimizer({.name = "clashing",
                      .explanation = "Has a setting with the name of a key.",
                      .make = find_optimizer("sgd")->make,
                      .settings = {{"lr", setting_type::real, "1.0", "Twice."}}});
  topology::load_plugins({});
}

/// Registers everything before the first test.
[[maybe_unused]] const bool registered = (register_all(), true);

constexpr const char* usual =
    "[model]\nname = \"sine_net\"\nloss = \"focal\"\n[data]\nname = \"spirals\"\n[optimizer]\nname = \"lion\"\n";

topology::topology parsed(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return topology::parse(text, "t.toml", overrides);
}

std::string refusal(const std::string& text, const std::vector<std::string>& overrides = {}) {
  try {
    const auto file = parsed(text, overrides);
    make_plan(file, data_facts{load_data(file), file});
  } catch (const input_error& reason) {
    return reason.what();
  }
  return "accepted";
}

plan planned(const std::string& text, const std::vector<std::string>& overrides = {}) {
  const auto file = parsed(text, overrides);
  return make_plan(file, data_facts{load_data(file), file});
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("settings of registered kinds have their defaults, and are printed and read again") {
  const auto file = parsed(usual, {"model.gamma=0.5", "optimizer.beta2=0.75"});
  CHECK((file.model.options == setting_values{{"frequency", 5.0}, {"gamma", 0.5}}));
  CHECK((file.data.options == setting_values{{"turns", 1.5}}));
  CHECK((file.optimizer.options == setting_values{{"beta1", 0.9}, {"beta2", 0.75}}));
  auto again = parsed(topology::print(file));
  again.file = file.file;
  CHECK(again == file);
  for (const auto* line : {"model.frequency = 5.0\n", "model.gamma = 0.5\n", "data.turns = 1.5\n", "beta2 = 0.75\n"})
    CHECK(has(topology::canonical(file), line));
}

TEST_CASE("settings of registered kinds are checked like other keys") {
  CHECK(has(refusal(std::string(usual) + "beta2 = 2\n"),
            "t.toml:8:9: optimizer.beta2 is 2; expected a number from 0 to 1"));
  CHECK(
      has(refusal(std::string(usual) + "beta2 = \"x\"\n"), "optimizer.beta2 is \"x\"; expected a number from 0 to 1"));
  CHECK(has(refusal(usual, {"optimizer.beta3=0.5"}), "has no key \"beta3\""));
  CHECK(has(refusal(usual, {"optimizer.beta3=0.5"}), "did you mean \"beta"));
  CHECK(has(refusal(usual, {"optimizer.name=sgd", "optimizer.beta2=0.5"}),
            "\"beta2\" is a setting of lion, but this optimizer is of kind \"sgd\""));
  CHECK(has(refusal(usual, {"optimizer.name=clashing"}), "two keys of [optimizer] are called \"lr\""));
  CHECK(has(refusal(usual, {"model.name=sine"}), "did you mean \"sine_net\""));
  auto changed = parsed(usual);
  changed.optimizer.options["beta2"] = 2.0;  // by a program
  CHECK_THROWS_AS(load_data(changed), input_error);
}

TEST_CASE("settings of other models, losses and data sets are ignored") {
  const auto file =
      parsed(usual, {"model.name=mlp", "model.loss=auto", "model.gamma=1", "data.name=digits", "data.turns=3"});
  CHECK(file.model.options.empty());
  CHECK(file.data.options.empty());
}

TEST_CASE("registered kinds are in the reference, in the JSON Schema and in plans") {
  const auto page = topology::reference_page();
  for (const auto* line : {"### `name = \"sine_net\"`", "### `loss = \"focal\"`", "### `name = \"spirals\"`",
                           "### `name = \"lion\"`", "| `beta2` | a number from 0 to 1 | `0.99` |"})
    CHECK(has(page, line));
  const auto schema = files::parse_json(topology::json_schema())["properties"];
  CHECK(schema["optimizer"]["properties"].contains("beta2"));
  CHECK(schema["model"]["properties"]["loss"]["enum"].dump().find("\"focal\"") != std::string::npos);
  const auto text = describe(planned(usual));
  CHECK(has(text, "sine_net, frequency 5.0, 4,482 parameters in 6 tensors"));
  CHECK(has(text, "focal, gamma 2.0"));
  CHECK(has(text, "spirals, turns 1.5, 4,000 training samples of 2 features, 2 classes"));
  CHECK(has(text, "lion, lr 0.01, beta1 0.9, beta2 0.99"));
  CHECK(has(text, "same bits   yes"));
}

TEST_CASE("a name is taken once, and empty names are refused") {
  CHECK_THROWS_WITH_AS(register_spirals(), "there is a data set called \"spirals\" already; expected another name",
                       std::invalid_argument);
  CHECK_THROWS_AS(register_optimizer({.name = "sgd"}), std::invalid_argument);
  CHECK_THROWS_AS(models::register_network({.name = ""}), std::invalid_argument);
  CHECK_THROWS_AS(models::register_loss({.name = "mse"}), std::invalid_argument);
}

TEST_CASE("any module of LibTorch is a network") {
  const auto net = models::make_network(*models::find_network("plain"), {.input = {2}, .classes = 2}, 1);
  const auto layout = models::layout_of(*net);
  std::vector<std::string> names;
  for (const auto& entry : layout.parameters) names.push_back(entry.name);
  CHECK(names == std::vector<std::string>{"linear.weight", "linear.bias", "norm.weight", "norm.bias"});
  CHECK(net->counts("norm.num_batches_tracked"));
  CHECK_FALSE(net->counts("table"));
  CHECK(net->takes_any_loss());
  CHECK(net->forward(at::zeros({3, 2})).sizes() == at::IntArrayRef({3, 2}));
  CHECK(has(refusal(usual, {"model.name=wide_numbers", "model.loss=auto"}),
            "its parameter linear.weight is Double; expected Float, that is, float32"));
}

TEST_CASE("draws from LibTorch's generator are found, and those of a random_module are its worker's") {
  CHECK(planned(usual, {"model.name=plain"}).draws_elsewhere.empty());
  CHECK(planned(usual).draws_elsewhere.empty());
  const auto dropping = planned(usual, {"model.name=dropping"});
  CHECK_FALSE(dropping.draws_elsewhere.empty());
  CHECK(has(describe(dropping), "same bits   no: the run draws random numbers"));
  const auto net = models::make_network(*models::find_network("sine_net"),
                                        {.input = {2}, .classes = 2, .settings = {{"frequency", 5.0}}}, 1);
  const auto passed = [&](std::uint64_t seed) {
    net->draw_from(at::detail::createCPUGenerator(seed));
    return net->forward(at::ones({64, 2}));
  };
  CHECK(passed(1).equal(passed(1)));
  CHECK_FALSE(passed(1).equal(passed(2)));
}

TEST_CASE("a registered loss is tried before a run, and says whether there is an accuracy") {
  const auto focal = planned(usual).loss;
  CHECK(focal.has_classes());
  CHECK((focal.settings() == setting_values{{"gamma", 2.0}}));
  const auto scores = at::eye(2);
  const auto target = at::arange(2);
  const models::loss_function unfocused{"focal", {{"gamma", 0.0}, {"frequency", 1.0}}};
  CHECK((unfocused.settings() == setting_values{{"gamma", 0.0}}));
  CHECK(at::allclose(models::mean_loss(unfocused, scores, target),
                     models::mean_loss(models::loss_function::cross_entropy, scores, target)));
  CHECK(*models::count_correct(focal, scores, target) == 2);
  CHECK(
      has(refusal(usual, {"model.loss=of_vectors"}),
          "model.loss = \"of_vectors\" does not fit data.name = \"spirals\" and model.name = \"sine_net\": it returns "
          "[2] instead of a scalar; return the mean over the samples"));
  const auto pinball = planned(usual, {"model.loss=pinball"});
  CHECK_FALSE(pinball.loss.has_classes());
  CHECK(has(refusal(usual, {"model.loss=pinball", "evaluate.target_accuracy=0.9"}),
            "sine_net is trained with pinball, which has none"));
  CHECK(has(refusal(usual, {"model.name=svm", "data.name=sparse"}), "does not fit the output of svm; use \"hinge\""));
  CHECK(planned(usual, {"model.name=lenet", "data.name=digits"}).loss.name() == "focal");
}

TEST_CASE("a loss that needs classes is refused for numbers, and one for two classes for more") {
  CHECK(has(refusal(usual, {"model.name=plain", "model.loss=hinge", "data.name=three"}),
            "the loss hinge requires 2 classes, but three has 3; use \"cross_entropy\""));
  CHECK(
      has(refusal(usual, {"model.name=plain", "model.loss=auto", "data.name=numbers"}),
          "the loss cross_entropy requires classes, but the targets of numbers are numbers; set model.loss = \"mse\""));
  CHECK(has(refusal(usual, {"model.loss=constant"}), "it cannot be differentiated"));
}

TEST_CASE("functions of kinds that return nothing, or throw, are named") {
  CHECK(has(refusal(usual, {"model.name=nothing"}), "the function `make` of this model returned no network"));
  CHECK(has(refusal(usual, {"model.name=failing", "model.loss=auto"}), "no such table"));
  CHECK(has(refusal(usual, {"optimizer.name=nothing"}),
            "optimizer.name = \"nothing\" cannot be used: the function `make` of \"nothing\" returned no optimizer"));
  CHECK_THROWS_AS(models::register_network({.name = "empty"}), std::invalid_argument);
  CHECK_THROWS_AS(models::register_loss({.name = "empty"}), std::invalid_argument);
  CHECK_THROWS_AS(data::register_dataset({.name = "empty"}), std::invalid_argument);
  CHECK_THROWS_AS(register_optimizer({.name = "empty"}), std::invalid_argument);
  CHECK_THROWS_AS(register_optimizer({.name = "empty", .reads = {"lr"}, .make = find_optimizer("sgd")->make}),
                  std::invalid_argument);
  CHECK_THROWS_WITH_AS((models::loss_function{"focal"}), "the loss \"focal\" requires a value for gamma",
                       std::invalid_argument);
}

namespace {

data::dataset some_set() {
  return {.inputs = at::zeros({4, 2}), .targets = at::arange(4) % 2};
}

/// A pair of sets, changed from some_set(), and the end of the message about it; empty if it is accepted.
struct changed_pair {
  std::function<void(data::dataset& train, data::dataset& test)> change;
  std::string message;
};

const std::vector<changed_pair> pairs{
    {[](auto&, auto&) {}, ""},
    {[](auto& train, auto&) { train.targets = at::Tensor(); }, "training set: it has no targets; expected [N]"},
    {[](auto&, auto& test) { test.targets = at::zeros({0}, at::kLong); }, "test set: it has no targets; expected [N]"},
    {[](auto& train, auto&) { train.targets = at::zeros({4}, at::kInt); },
     "training set: its targets are Int; expected int64 classes or float32 numbers"},
    {[](auto& train, auto&) {
       train.targets = at::zeros({4, 3});
     },
     "training set: its targets have 2 dimensions; expected [N], or [N, T] for texts"},
    {[](auto& train, auto&) { train.targets = at::arange(4) - 1; },
     "training set: its targets are from -1 to 2; expected classes from 0 to 1048575"},
    {[](auto& train, auto& test) { train.classes = test.classes = {"one"}; },
     "training set: its targets are from 0 to 1; expected classes from 0 to 0"},
    {[](auto& train, auto&) {
       train.classes = {"one", "two"};
     },
     "its training and its test set name different classes"},
    {[](auto&, auto& test) { test.targets = at::zeros({4}); },
     "the targets of its training and its test set have different types or shapes"},
    {[](auto& train, auto&) { train.inputs = at::Tensor(); }, "training set: it has no inputs; expected [N, …]"},
    {[](auto& train, auto&) {
       train.inputs = at::zeros({4, 2}, at::kDouble);
     },
     "training set: its inputs are Double; expected uint8, float32 or int64"},
    {[](auto& train, auto&) {
       train.inputs = at::zeros({4, 2}, at::kByte);
     },
     "training set: its inputs are uint8, but not images [N, C, H, W]"},
    {[](auto& train, auto&) {
       train.inputs = at::zeros({4, 2, 2}, at::kLong);
     },
     "training set: its inputs are int64, but not texts [N, T]"},
    {[](auto& train, auto&) {
       train.inputs = at::zeros({5, 2});
     },
     "training set: it has 5 inputs and 4 targets; expected as many"},
    {[](auto& train, auto&) {
       train.inputs = at::zeros({2, 4}).t();
     },
     "training set: its inputs are not contiguous, or not on the CPU; expected inputs.contiguous().cpu()"},
    {[](auto&, auto& test) {
       test.inputs = at::zeros({4, 3});
     },
     "the inputs of its training and its test set have different types or shapes"},
};

/// The pair that the data set "changed" loads.
data::dataset_pair& loaded_pair() {
  static data::dataset_pair pair;
  return pair;
}

}  // namespace

TEST_CASE("names and defaults of kinds and settings are checked") {
  const auto make = find_optimizer("sgd")->make;
  CHECK_THROWS_WITH_AS(register_optimizer({.name = "two words", .make = make}),
                       "an optimizer is called \"two words\"; expected a name of letters, digits, - and _",
                       std::invalid_argument);
  CHECK_THROWS_AS(register_optimizer({.name = "odd", .make = make, .settings = {{"Größe"}}}), std::invalid_argument);
  CHECK_THROWS_AS(register_optimizer({.name = "odd", .make = make, .settings = {{"a"}, {"a"}}}), std::invalid_argument);
  CHECK_THROWS_AS(models::register_loss({.name = "auto", .mean = models::find_loss("mse")->mean}),
                  std::invalid_argument);
  CHECK(
      has(refusal(usual, {"optimizer.name=wrong_default"}),
          "the default of the setting beta is yes, which the kind that registers it must correct; expected a number"));
  const auto file = parsed(usual, {"optimizer.name=typed_defaults"});
  CHECK((file.optimizer.options == setting_values{{"column", std::vector<std::string>{"x"}},
                                                  {"file", std::filesystem::absolute("a/b").string()},
                                                  {"text", std::string("5")}}));
  auto again = parsed(topology::print(file));
  CHECK(again.optimizer == file.optimizer);
}

TEST_CASE("settings of kinds that are not chosen cause a warning") {
  const auto warnings = planned(usual, {"model.loss=auto", "model.gamma=1"}).warnings;
  CHECK(std::find(warnings.begin(), warnings.end(),
                  "model.gamma has no effect, because it is a setting of loss = \"focal\"") != warnings.end());
}

TEST_CASE("draws of losses and optimizers from LibTorch's generator are found") {
  CHECK(planned(usual, {"model.loss=dropping"}).draws_elsewhere == std::vector<std::string>{"the loss"});
  CHECK(planned(usual, {"optimizer.name=langevin"}).draws_elsewhere == std::vector<std::string>{"the optimizer"});
}

TEST_CASE("parameters of a module that are frozen are kept like buffers") {
  const auto net = models::make_network(*models::find_network("frozen"), {.input = {2}, .classes = 2}, 1);
  const auto layout = models::layout_of(*net);
  CHECK(layout.parameters.front().name == "linear.bias");
  CHECK(layout.buffers.front().name == "linear.weight");
  CHECK_THROWS_AS(models::as_network(std::shared_ptr<plain_module>{}), std::invalid_argument);
}

TEST_CASE("what a registered data set loads is checked and completed") {
  data::register_dataset({.name = "changed", .explanation = "", .load = [](const auto&) { return loaded_pair(); }});
  const auto& kind = *data::find_dataset("changed");
  for (const auto& [change, message] : pairs) {
    auto train = some_set(), test = some_set();
    change(train, test);
    loaded_pair() = {.train = std::make_shared<data::dataset>(train), .test = std::make_shared<data::dataset>(test)};
    CAPTURE(message);
    if (message.empty())
      CHECK(kind.load({}).train->classes == std::vector<std::string>{"0", "1"});
    else
      CHECK_THROWS_WITH_AS(kind.load({}), ("the data set \"changed\": " + message).c_str(), data::data_error);
  }
  loaded_pair() = {};
  CHECK_THROWS_WITH_AS(kind.load({}), "the data set \"changed\": it has no training set", data::data_error);
  loaded_pair().train = std::make_shared<data::dataset>(some_set());
  const auto alone = kind.load({});
  CHECK(alone.test == alone.train);
  CHECK(alone.sample_shape == std::vector<std::int64_t>{2});
}

TEST_CASE("a registered optimizer continues from its state") {
  optimizer_options options;
  options.name = "lion";
  options.lr = 0.1;
  options.weight_decay = 0.1;
  options.undecayed = {{0, 2}};
  options.parameters = 4;
  options.settings = {{"beta1", 0.9}, {"beta2", 0.99}};
  auto generator = at::detail::createCPUGenerator(1);
  const auto gradients = at::randn({6, 4}, generator);
  const auto whole = make_optimizer(options), first = make_optimizer(options), second = make_optimizer(options);
  const auto expected = at::ones({4}), weights = at::ones({4});
  for (std::int64_t step = 0; step < 6; ++step)
    whole->step(expected, gradients[step], 1, static_cast<std::uint64_t>(step));
  for (std::int64_t step = 0; step < 3; ++step)
    first->step(weights, gradients[step], 1, static_cast<std::uint64_t>(step));
  second->restore(first->state());
  for (std::int64_t step = 3; step < 6; ++step)
    second->step(weights, gradients[step], 1, static_cast<std::uint64_t>(step));
  CHECK(weights.equal(expected));
}

TEST_CASE("parameters without a gradient keep their values and their state under any registered optimizer") {
  optimizer_options options;
  options.name = "lion";
  options.lr = 0.1;
  options.weight_decay = 0.5;
  options.settings = {{"beta1", 0.9}, {"beta2", 0.99}};
  options.tensors = {{0, 2}, {2, 3}};
  auto generator = at::detail::createCPUGenerator(1);
  auto half = options;
  half.tensors = {};
  const auto whole = make_optimizer(options), first = make_optimizer(half), second = make_optimizer(half);
  const auto weights = at::ones({5}), alone_first = at::ones({2}), alone_second = at::ones({3});
  for (std::uint64_t step = 0; step < 8; ++step) {
    const auto gradient = at::randn({5}, generator);
    if (step % 3 == 1) rules::mark_missing(gradient, {0, 2});
    if (step % 3 != 1) first->step(alone_first, gradient.narrow(0, 0, 2), 1, step);
    second->step(alone_second, gradient.narrow(0, 2, 3), 1, step);
    whole->step(weights, gradient, 1, step);
  }
  CHECK(weights.equal(at::cat({alone_first, alone_second})));
  CHECK(whole->state().tensor("m").equal(at::cat({first->state().tensor("m"), second->state().tensor("m")})));
}

}  // namespace spirals_test
