// Two steps of each optimizer, worked out by hand.
#include "troupe/actors/optimizer.hpp"

#include "tests/support/doctest.hpp"

#include "troupe/actors/optimizer_kinds.hpp"

#include <ATen/ATen.h>

#include <initializer_list>
#include <stdexcept>
#include <vector>

namespace {

using namespace troupe;

at::Tensor row(std::vector<float> values) {
  return at::tensor(values, at::kFloat);
}

/// The weights after one step along each of `gradients`, in other memory each time, as a replica brings them.
at::Tensor stepped(const optimizer_options& options, at::Tensor weights, const std::vector<at::Tensor>& gradients) {
  const auto made = make_optimizer(options);
  for (std::size_t step = 0; step < gradients.size(); ++step) {
    weights = weights.clone();
    const auto before = gradients[step].clone();
    made->step(weights, gradients[step], 1, step);
    CHECK(gradients[step].equal(before));  // it may be everybody's
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

TEST_CASE("novograd has one second moment for each layer, and adds the decay beside the normalised gradient") {
  const optimizer_options options{
      .name = "novograd", .lr = 0.1, .weight_decay = 0.5, .betas = {0.5, 0.75}, .tensors = {{0, 2}, {3, 1}}};
  // v = 25, then 43.75; m = (1.1, 1.3), then (0.7725, 1.62342895). Second layer: without a gradient, then v = 1.
  check_close(stepped(options, row({1, 1, 0, 2}), {row({3, 4, 0, 0})}), {0.89F, 0.87F, 0, 1.9F});
  check_close(stepped(options, row({1, 1, 0, 2}), {row({3, 4, 0, 0}), row({0, 10, 0, 2})}),
              {0.81275F, 0.7076571F, 0, 1.7025F});
}

TEST_CASE("a gradient that is too long is scaled down for every optimizer, a shorter one is left alone") {
  optimizer_options options{.name = "sgd", .lr = 1, .clip_norm = 1};
  check_close(stepped(options, row({0, 0}), {row({3, 4})}), {-0.6F, -0.8F});
  check_close(stepped(options, row({0, 0}), {row({0.3F, 0.4F})}), {-0.3F, -0.4F});
  options = {.name = "adam", .lr = 0.1, .clip_norm = 1, .eps = 1};
  check_close(stepped(options, row({0, 0}), {row({3, 4})}), {-0.1F * 0.6F / 1.6F, -0.1F * 0.8F / 1.8F});
}

TEST_CASE("every optimizer goes by the schedule and by what the exchange scales") {
  for (const auto& kind : optimizer_kinds()) {
    CAPTURE(kind.name);
    const optimizer_options options{
        .name = kind.name, .lr = 0.5, .schedule = {.warmup_steps = 2, .warmup_start = 0}, .tensors = {{0, 2}}};
    const auto weights = row({1, 2}), gradient = row({3, 4});
    check_close(stepped(options, weights, {gradient}), {1, 2});  // 0 of the warm-up's 2 steps
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
