// Two steps of each optimizer, computed by hand.
#include "troupe/algorithms/training/optimizer.hpp"

#include "tests/support/doctest.hpp"

#include "troupe/algorithms/training/optimizer_kinds.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/tensor.h>

#include <cmath>
#include <initializer_list>
#include <limits>
#include <stdexcept>
#include <vector>

namespace optimizer_test {

namespace {

using namespace troupe;

at::Tensor row(std::vector<float> values) {
  return at::tensor(values, at::kFloat);
}

/// Returns the weights after one step along each of `gradients`, in new memory each time, as with a replica.
at::Tensor stepped(const optimizer_options& options, at::Tensor weights, const std::vector<at::Tensor>& gradients) {
  const auto made = make_optimizer(options);
  for (std::size_t step = 0; step < gradients.size(); ++step) {
    weights = weights.clone();
    const auto before = gradients[step].clone();
    made->step(weights, gradients[step], 1, step);
    CHECK(gradients[step].allclose(before, 0, 0, true));  // gradients may be shared
  }
  return weights;
}

void check_close(const at::Tensor& found, std::vector<float> expected) {
  INFO(found);
  CHECK(found.allclose(row(std::move(expected)), 1e-6, 1e-6));
}

}  // namespace

TEST_CASE("sgd keeps a share of the last direction, and looks ahead where it is told to") {
  optimizer_options options{.name = "sgd", .lr = 0.5, .momentum = 0.5};
  check_close(stepped(options, row({1, -2}), {row({2, 4}), row({0, 2})}), {-0.5, -6});
  options.nesterov = true;
  check_close(stepped(options, row({1, -2}), {row({2, 4}), row({0, 2})}), {-0.75, -7});
}

TEST_CASE("adam goes by moments without their bias") {
  // m̂ = −2/3, v̂ = 4; m̂ = 4/3, v̂ = 48/7
  const optimizer_options options{.name = "adam", .lr = 0.1, .betas = {0.5, 0.75}};
  check_close(stepped(options, row({1, -2}), {row({2, 4}), row({-2, 0})}), {0.9333333F, -2.1509175F});
}

TEST_CASE("adam adds the weight decay to the gradient, adamw takes it from the weights") {
  optimizer_options options{.name = "adam", .lr = 0.1, .weight_decay = 0.5};
  check_close(stepped(options, row({1}), {row({-0.5})}), {1});  // g + 0.5·w = 0
  options.name = "adamw";
  check_close(stepped(options, row({1}), {row({-0.5})}), {1.05F});
  check_close(stepped(options, row({1, -2}), {row({2, 4}), row({2, 4})}), {0.7075F, -2});
}

namespace {

/// Two layers, of two numbers and of one, with padding between them, and three gradients. The second layer has no
/// gradient at first.
const std::vector<at::Tensor> layered{row({3, 4, 0, 0}), row({0, 10, 0, 2}), row({-6, 8, 0, 1})};

optimizer_options novograd() {
  return {.name = "novograd", .lr = 0.1, .weight_decay = 0.5, .betas = {0.5, 0.75}, .tensors = {{0, 2}, {3, 1}}};
}

at::Tensor layers_after(const optimizer_options& options, std::size_t steps) {
  return stepped(options, row({1, 1, 0, 2}), {layered.begin(), layered.begin() + static_cast<std::ptrdiff_t>(steps)});
}

}  // namespace

TEST_CASE("novograd begins with half of its moments at zero, as the package torch_optimizer") {
  // By hand: v = 25, d = (3, 4)/5 + (1, 1)/2, m = d; then v = 43.75. The second layer has v = 0, and then 4.
  check_close(layers_after(novograd(), 1), {0.89F, 0.87F, 0, 1.9F});
  check_close(layers_after(novograd(), 2), {0.7905F, 0.6103142F, 0, 1.655F});
  // Printed by torch_optimizer 0.3.0: NovoGrad(lr=0.1, betas=(0.5, 0.75), weight_decay=0.5).
  check_close(layers_after(novograd(), 3), {0.7801365F, 0.3447402F, 0, 1.39428F});
}

TEST_CASE("novograd averages gradients where it is told to") {
  auto options = novograd();
  options.grad_averaging = true;
  check_close(layers_after(options, 1), {0.945F, 0.935F, 0, 1.95F});
  // Printed by torch_optimizer 0.3.0 with grad_averaging=True.
  check_close(layers_after(options, 2), {0.893875F, 0.8035321F, 0, 1.82625F});
  check_close(layers_after(options, 3), {0.8854214F, 0.6651022F, 0, 1.6909838F});
}

TEST_CASE("novograd keeps nothing of the second moment unless told otherwise") {
  // Printed by torch_optimizer 0.3.0: NovoGrad(lr=0.1).
  const optimizer_options options{.name = "novograd", .lr = 0.1, .tensors = {{0, 2}, {3, 1}}};
  check_close(layers_after(options, 2), {0.883F, 0.744F, 0, 1.9F});
  check_close(layers_after(options, 3), {0.88885F, 0.4968F, 0, 1.705F});
}

TEST_CASE("novograd begins with its first direction where it is told to, averaged or not") {
  auto options = novograd();
  options.starts_at_gradient = true;
  for (const std::size_t steps : {1, 2, 3}) CHECK(layers_after(options, steps).equal(layers_after(novograd(), steps)));
  options.grad_averaging = true;
  // m = (1.1, 1.3), then (0.7725, 1.62342895): the first step is whole, the second by halves. Second layer: 1, 1.475.
  check_close(layers_after(options, 1), {0.89F, 0.87F, 0, 1.9F});
  check_close(layers_after(options, 2), {0.81275F, 0.7076571F, 0, 1.7525F});
}

TEST_CASE("weight decay leaves out what it is told to, for every optimizer, as PyTorch's groups of parameters") {
  const auto weights = row({1, -2, 3, -1});
  const std::vector<at::Tensor> gradients{row({2, 4, 1, 3}), row({0, 2, -1, -2})};
  const auto after = [&](optimizer_options options) {
    options.weight_decay = 0.5;
    options.undecayed = {{2, 1}};
    return stepped(options, weights, gradients);
  };
  // Printed by PyTorch: the third weight is in a group with weight_decay=0, the others are in one with 0.5.
  check_close(after({.name = "sgd", .lr = 0.5, .momentum = 0.5}), {-0.8125F, -4.375F, 2.75F, -1.3125F});
  check_close(after({.name = "adam", .lr = 0.1, .eps = 1e-3}), {0.8209496F, -2.1862798F, 2.9053578F, -1.0937099F});
  check_close(after({.name = "adamw", .lr = 0.1, .eps = 1e-3}), {0.7405890F, -1.9931648F, 2.9053578F, -1.0119147F});
  auto options = novograd();
  options.undecayed = {{3, 1}};
  // Printed by torch_optimizer 0.3.0 with two groups.
  check_close(layers_after(options, 3), {0.7801365F, 0.3447402F, 0, 1.7945299F});
}

TEST_CASE("weight decay that leaves out all is none, and that leaves out nothing is whole") {
  for (const auto& kind : optimizer_kinds()) {
    CAPTURE(kind.name);
    optimizer_options options{.name = kind.name, .lr = 0.1, .weight_decay = 0.5, .tensors = {{0, 2}, {3, 1}}};
    const auto whole = layers_after(options, 3);
    options.undecayed = {{0, 4}};
    const auto left_out = layers_after(options, 3);
    CHECK_FALSE(left_out.equal(whole));
    options.undecayed = {};
    options.weight_decay = 0;
    CHECK(left_out.equal(layers_after(options, 3)));
  }
}

TEST_CASE("the options of a part of the storage count from its beginning") {
  optimizer_options options{.undecayed = {{0, 16}, {32, 32}, {80, 16}},
                            .tensors = {{0, 10}, {16, 3}, {32, 30}, {80, 5}}};
  const auto part = within(options, {16, 32});
  CHECK((part.undecayed == std::vector<range>{{16, 16}}));
  CHECK((part.tensors.front() == range{0, 3}));
  CHECK(within(options, {64, 16}).undecayed.empty());
  CHECK((within(options, {0, 96}).undecayed == options.undecayed));
}

TEST_CASE("a gradient that is too long is scaled down for every optimizer, a shorter one is left alone") {
  optimizer_options options{.name = "sgd", .lr = 1, .clip_norm = 1};
  check_close(stepped(options, row({0, 0}), {row({3, 4})}), {-0.6F, -0.8F});
  check_close(stepped(options, row({0, 0}), {row({0.3F, 0.4F})}), {-0.3F, -0.4F});
  options = {.name = "adam", .lr = 0.1, .clip_norm = 1, .eps = 1};
  check_close(stepped(options, row({0, 0}), {row({3, 4})}), {-0.1F * 0.6F / 1.6F, -0.1F * 0.8F / 1.8F});
}

TEST_CASE("a gradient whose norm is not finite is clipped as PyTorch clips it, so that the next loss tells") {
  const auto nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  const optimizer_options options{.name = "sgd", .lr = 1, .clip_norm = 1};
  // torch.nn.utils.clip_grad_norm_ multiplies all gradients by clip_norm / (norm + 1e-6), which is NaN here
  CHECK(stepped(options, row({0, 1}), {row({nan, 2})}).isnan().all().item<bool>());
  const auto clipped = stepped(options, row({0, 1}), {row({inf, 2})});  // and 0 here
  CHECK(std::isnan(clipped[0].item<float>()));
  CHECK(clipped[1].item<float>() == 1);
}

TEST_CASE("every optimizer goes by the schedule and by what the exchange scales") {
  for (const auto& kind : optimizer_kinds()) {
    CAPTURE(kind.name);
    const optimizer_options options{
        .name = kind.name, .lr = 0.5, .schedule = {.warmup_steps = 2, .warmup_start = 0}, .tensors = {{0, 2}}};
    const auto weights = row({1, 2}), gradient = row({3, 4});
    check_close(stepped(options, weights, {gradient}), {1, 2});  // 0 of the 2 warm-up steps
    const auto whole = weights.clone(), half = weights.clone(), scaled = weights.clone();
    make_optimizer(options)->step(whole, gradient, 1, 2);
    make_optimizer(options)->step(half, gradient, 1, 1);
    make_optimizer(options)->step(scaled, gradient, 0.5, 2);
    CHECK((half - weights).allclose((whole - weights) / 2));
    CHECK(scaled.equal(half));
  }
}

TEST_CASE("an unknown optimizer is refused") {
  CHECK_THROWS_AS(make_optimizer({.name = "sdg"}), std::invalid_argument);
}

}  // namespace optimizer_test
