// The state of each optimizer: after it is restored, the next steps are those of an optimizer that was not interrupted.
#include "tests/support/doctest.hpp"

#include "troupe/algorithms/training/optimizer.hpp"
#include "troupe/algorithms/training/optimizer_kinds.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace optimizer_state_test {

namespace {

using namespace troupe;

constexpr std::int64_t parameters = 12;

/// Returns the gradient of step `step`. One in three has a norm above 1.
at::Tensor gradient_of(std::uint64_t step) {
  auto generator = at::detail::createCPUGenerator(step + 1);
  return at::randn({parameters}, generator) * (step % 3 == 0 ? 1 : 0.1);
}

struct variant {
  std::string name;
  optimizer_options options;
};

/// Every optimizer, with each option that may affect its state.
std::vector<variant> variants() {
  std::vector<variant> all;
  for (const auto& kind : optimizer_kinds()) {
    const optimizer_options plain{.name = kind.name, .lr = 0.1, .tensors = {{0, 5}, {5, 3}, {10, 2}}};
    const auto add = [&](const std::string& with, auto change) {
      auto options = plain;
      change(options);
      all.push_back({kind.name + " with " + with, std::move(options)});
    };
    add("nothing", [](auto&) {});
    add("weight decay", [](auto& options) { options.weight_decay = 0.1; });
    add("undecayed ranges", [](auto& options) {
      options.weight_decay = 0.1;
      options.undecayed = {{2, 3}, {10, 2}};
    });
    add("a clipped norm", [](auto& options) { options.clip_norm = 1; });
    add("a schedule", [](auto& options) { options.schedule = {.warmup_steps = 7, .warmup_start = 0.1}; });
    if (goes_by(kind, "momentum")) {
      add("momentum", [](auto& options) { options.momentum = 0.9; });
      add("nesterov", [](auto& options) {
        options.momentum = 0.9;
        options.nesterov = true;
      });
      add("momentum, undecayed ranges and a clipped norm", [](auto& options) {
        options.momentum = 0.9;
        options.weight_decay = 0.1;
        options.undecayed = {{0, 1}, {4, 4}};
        options.clip_norm = 0.5;
      });
    }
    if (goes_by(kind, "betas")) add("betas", [](auto& options) { options.betas = {0.7, 0.8}; });
    if (goes_by(kind, "grad_averaging"))
      add("averaged gradients", [](auto& options) { options.grad_averaging = options.starts_at_gradient = true; });
  }
  return all;
}

/// Returns the weights after `count` steps from step `first`, each in new memory.
at::Tensor stepped(optimizer& engine, at::Tensor weights, std::uint64_t first, std::uint64_t count) {
  for (auto step = first; step < first + count; ++step) {
    weights = weights.clone();
    engine.step(weights, gradient_of(step), 1, step);
  }
  return weights;
}

at::Tensor initial() {
  return at::linspace(-1, 1, parameters, at::kFloat);
}

}  // namespace

TEST_CASE("after its state is restored, an optimizer goes on bit for bit, whatever its options") {
  for (const auto& each : variants()) {
    CAPTURE(each.name);
    for (const std::uint64_t before : {0, 1, 5}) {
      CAPTURE(before);
      const auto uninterrupted = make_optimizer(each.options), restored = make_optimizer(each.options);
      const auto then = stepped(*uninterrupted, initial(), 0, before);
      const auto saved = uninterrupted->state();
      const auto expected = stepped(*uninterrupted, then, before, 5);

      restored->restore(saved);
      CHECK(restored->state().entries().size() == saved.entries().size());
      CHECK(stepped(*restored, then, before, 5).equal(expected));
      // The state does not contain what the first optimizer wrote after it was taken.
      const auto again = make_optimizer(each.options);
      again->restore(saved);
      CHECK(stepped(*again, then, before, 5).equal(expected));
    }
  }
}

TEST_CASE("an optimizer without its state does not go on bit for bit") {
  for (const auto& kind : optimizer_kinds()) {
    CAPTURE(kind.name);
    const optimizer_options options{.name = kind.name, .lr = 0.1, .momentum = 0.9, .tensors = {{0, 5}, {5, 7}}};
    const auto uninterrupted = make_optimizer(options);
    const auto then = stepped(*uninterrupted, initial(), 0, 5);
    const auto expected = stepped(*uninterrupted, then, 5, 1);
    CHECK_FALSE(stepped(*make_optimizer(options), then, 5, 1).equal(expected));
  }
}

TEST_CASE("the state of an optimizer has the names of PyTorch and one element per parameter") {
  const auto state_of = [](const optimizer_options& options) {
    const auto engine = make_optimizer(options);
    CHECK(engine->state().empty());
    stepped(*engine, initial(), 0, 3);
    return engine->state();
  };
  CHECK(state_of({.name = "sgd", .lr = 0.1}).empty());
  const auto momentum = state_of({.name = "sgd", .lr = 0.1, .momentum = 0.5});
  CHECK(momentum.entries().size() == 1);
  const auto by_hand = gradient_of(0) * 0.25 + gradient_of(1) * 0.5 + gradient_of(2);
  CHECK(momentum.tensor("momentum_buffer", parameters).allclose(by_hand));
  for (const std::string name : {"adam", "adamw"}) {
    const auto saved = state_of({.name = name, .lr = 0.1, .undecayed = {{3, 4}}});
    CHECK(saved.entries().size() == 3);
    CHECK(saved.count("step") == 3);
    CHECK(saved.tensor("exp_avg_sq", parameters).ge(0).all().item<bool>());
    CHECK_FALSE(saved.tensor("exp_avg", parameters).ge(0).all().item<bool>());
  }
  const auto layers = state_of({.name = "novograd", .lr = 0.1, .tensors = {{0, 5}, {5, 7}}});
  CHECK(layers.tensor("exp_avg", parameters).numel() == parameters);
  CHECK(layers.tensor("exp_avg_sq", 2).ge(0).all().item<bool>());
}

TEST_CASE("a state taken after it was restored is the same state") {
  for (const auto& each : variants()) {
    CAPTURE(each.name);
    const auto first = make_optimizer(each.options), second = make_optimizer(each.options);
    stepped(*first, initial(), 0, 3);
    const auto saved = first->state();
    second->restore(saved);
    const auto found = second->state();
    REQUIRE(found.entries().size() == saved.entries().size());
    for (const auto& [name, values] : saved.entries()) CHECK(found.entries().at(name).equal(values));
  }
}

TEST_CASE("a state that does not fit an optimizer is refused") {
  const auto saved_by = [](const optimizer_options& options) {
    const auto engine = make_optimizer(options);
    stepped(*engine, initial(), 0, 1);
    return engine->state();
  };
  const auto whole = [](const optimizer_options& options) { return within(options, {0, parameters}); };
  const std::vector<range> layers{{0, 5}, {5, 7}};
  const optimizer_options sgd{.name = "sgd", .momentum = 0.9}, plain{.name = "sgd"}, adam{.name = "adam"},
      novograd{.name = "novograd", .tensors = layers};

  CHECK_THROWS_WITH_AS(make_optimizer(plain)->restore(saved_by(sgd)),
                       "the entry \"momentum_buffer\" is unknown to this optimizer", state_error);
  CHECK_THROWS_AS(make_optimizer(sgd)->restore(saved_by(adam)), state_error);
  CHECK_THROWS_AS(make_optimizer(adam)->restore(saved_by(novograd)), state_error);
  CHECK_THROWS_AS(make_optimizer(novograd)->restore(saved_by(adam)), state_error);
  state_dict half;
  half.put("exp_avg", initial());
  CHECK_THROWS_WITH_AS(make_optimizer(novograd)->restore(half), "the entry \"exp_avg_sq\" of the optimizer is missing",
                       state_error);

  for (const auto& options : {sgd, adam, novograd}) {
    CAPTURE(options.name);
    const auto saved = saved_by(options);
    make_optimizer(whole(options))->restore(saved);
    // If the number of parameters is known, at once; otherwise at the next step.
    auto wider = options;
    wider.parameters = parameters + 1;
    CHECK_THROWS_AS(make_optimizer(wider)->restore(saved), state_error);
    const auto engine = make_optimizer(options);
    engine->restore(saved);
    CHECK_THROWS_AS(engine->step(at::zeros({parameters + 1}), at::zeros({parameters + 1}), 1, 1), state_error);
  }
  auto more_layers = novograd;
  more_layers.tensors.push_back({11, 1});
  CHECK_THROWS_AS(make_optimizer(more_layers)->restore(saved_by(novograd)), state_error);
}

}  // namespace optimizer_state_test
