// The numbers of the outer optimizers, worked out by hand, and PyTorch's SGD on the outer gradient.
#include "troupe/algorithms/exchange/around/outer_optimizer.hpp"

#include "tests/support/doctest.hpp"

#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <torch/optim/sgd.h>

#include <vector>

namespace outer_optimizer_test {

using namespace troupe;

namespace {

at::Tensor value(double number) {
  return at::full({1}, number);
}

/// Returns the parameters after each step from 10 on, given the means and the ratios of the rates.
std::vector<double> anchors(const outer_optimizer& rule, const std::vector<double>& means,
                            const std::vector<double>& ratios = {}) {
  auto state = rule.begin(value(10));
  std::vector<double> found;
  for (std::size_t i = 0; i < means.size(); ++i) {
    rule.step(state, value(means[i]), ratios.empty() ? 1 : ratios[i]);
    found.push_back(state.anchor.item<double>());
  }
  return found;
}

}  // namespace

TEST_CASE("the steps of outer optimizers are those of their papers") {
  const outer_optimizer nesterov{.rule = outer_rule::nesterov, .lr = 0.7, .momentum = 0.9};
  auto state = nesterov.begin(value(10));
  nesterov.step(state, value(8.5));
  CHECK(state.anchor.item<double>() == doctest::Approx(8.005));
  nesterov.step(state, value(7.6));
  CHECK(state.anchor.item<double>() == doctest::Approx(6.61585));
  CHECK(state.first.item<double>() == doctest::Approx(1.755));

  const outer_optimizer slow{.rule = outer_rule::slowmo, .lr = 1, .momentum = 0.5};
  const auto under_falling_rate = anchors(slow, {8.5, 8.0}, {1, 0.5});
  CHECK(under_falling_rate[0] == doctest::Approx(8.5));
  CHECK(under_falling_rate[1] == doctest::Approx(7.625));
  const outer_optimizer heavy_ball{.rule = outer_rule::momentum, .lr = 1, .momentum = 0.5};
  CHECK(anchors(heavy_ball, {8.5, 8.0}, {1, 0.5})[1] == doctest::Approx(7.25));  // is something else

  const outer_optimizer adam{.rule = outer_rule::adam, .lr = 0.1};
  CHECK(anchors(adam, {9})[0] == doctest::Approx(9.9009949));
}

TEST_CASE("an outer rate of 1 without momentum gives the mean, bit for bit") {
  for (const auto rule : {outer_rule::none, outer_rule::momentum, outer_rule::nesterov, outer_rule::slowmo}) {
    const outer_optimizer plain{.rule = rule};
    auto state = plain.begin(at::randn({1000}));
    for (int i = 0; i < 3; ++i) {
      auto mean = at::randn({1000});
      mean[0] = -0.0F;
      plain.step(state, mean);
      CHECK(state.anchor.equal(mean));
      CHECK(state.anchor.signbit()[0].item<bool>());
    }
  }
}

TEST_CASE("slow momentum is momentum while the rate is constant, bit for bit") {
  const outer_optimizer slow{.rule = outer_rule::slowmo, .lr = 0.8, .momentum = 0.7},
      heavy_ball{.rule = outer_rule::momentum, .lr = 0.8, .momentum = 0.7};
  const auto initial = at::randn({1000});
  auto one = slow.begin(initial), other = heavy_ball.begin(initial);
  for (int i = 0; i < 5; ++i) {
    const auto mean = at::randn({1000});
    slow.step(one, mean);
    heavy_ball.step(other, mean);
    CHECK(one.anchor.equal(other.anchor));
  }
}

TEST_CASE("momentum and Nesterov momentum are PyTorch's SGD on the outer gradient") {
  for (const bool nesterov : {false, true}) {
    CAPTURE(nesterov);
    const outer_optimizer rule{
        .rule = nesterov ? outer_rule::nesterov : outer_rule::momentum, .lr = 0.7, .momentum = 0.9};
    auto weights = at::randn({100});
    auto state = rule.begin(weights);
    weights.set_requires_grad(true);
    torch::optim::SGD sgd({weights}, torch::optim::SGDOptions(0.7).momentum(0.9).nesterov(nesterov));
    for (int i = 0; i < 50; ++i) {
      const auto mean = state.anchor + 0.1 * at::randn({100});
      weights.mutable_grad() = state.anchor - mean;
      sgd.step();
      rule.step(state, mean);
      CHECK((state.anchor - weights).abs().max().item<double>() < 1e-5);
    }
  }
}

}  // namespace outer_optimizer_test
