#include "troupe/models/networks/gradient_hooks.hpp"

#include "tests/support/doctest.hpp"

#include "troupe/models/storage/flat.hpp"

#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <functional>

namespace gradient_hooks_test {

using namespace troupe::models;

namespace {

// Scores = input · second · first: a frozen, a tied and two unused parameters among the used ones.
class odd_network : public network {
 public:
  odd_network() {
    const at::Tensor first = at::ones({3, 2}).requires_grad_();
    parameters_ = {{"unused", at::ones({3}).requires_grad_()},
                   {"first", first},
                   {"frozen", at::ones({5})},
                   {"again", first},
                   {"idle", at::ones({2}).requires_grad_()},
                   {"second", at::ones({4, 3}).requires_grad_()}};
  }
  at::Tensor forward(const at::Tensor& input) override {
    return input.flatten(1).mm(parameters_[5].second).mm(parameters_[1].second);
  }
  void train(bool) override {}
  void draw_from(at::Generator) override {}
  named_tensors parameters() const override { return parameters_; }
  named_tensors buffers() const override { return {}; }
  loss_function loss() const override { return loss_function::cross_entropy; }

 private:
  named_tensors parameters_;
};

using indices = std::vector<std::size_t>;

const network_shape two_by_two{.input = {1, 2, 2}, .classes = 2};

void backward(network& net) {
  mean_loss(net.loss(), net.forward(at::ones({1, 1, 2, 2})), at::zeros({1}, at::kLong)).backward();
}

}  // namespace

TEST_CASE("gradients of a network without branches come in the reverse of its registration") {
  const auto net = make_network(*find_network("lenet"), {}, 1);
  indices order = gradient_order(*net, {}, net->loss());
  REQUIRE(order.size() == 8);
  // The two gradients of a layer come in the order in which autograd visits them, which may be either.
  for (std::size_t layer = 0; layer < 4; ++layer) {
    const auto first = order.begin() + static_cast<std::ptrdiff_t>(2 * layer);
    std::sort(first, first + 2, std::greater<>{});
  }
  CHECK(order == indices{7, 6, 5, 4, 3, 2, 1, 0});
  const auto twin = make_network(*find_network("lenet"), {}, 2);
  const auto again = make_network(*find_network("lenet"), {}, 3);
  CHECK(gradient_order(*twin, {}, twin->loss()) == gradient_order(*again, {}, again->loss()));
}

TEST_CASE("parameters without a gradient are last, each tensor is once, frozen ones are not") {
  odd_network net;
  CHECK(gradient_order(net, two_by_two, net.loss()) == indices{1, 3, 2, 0});
}

TEST_CASE("a gradient is told once in each backward pass, also after its memory has changed") {
  odd_network net;
  buffer_pool pool;
  const flat_layout layout = layout_of(net);
  indices told;
  at::Tensor gradient;
  float seen = 0;
  watch_gradients(net, [&](std::size_t index) {
    told.push_back(index);
    if (index == 1 && gradient.defined()) seen = gradient.abs().sum().item<float>();
  });
  backward(net);
  CHECK(told == indices{1, 3});
  for (int round = 0; round < 3; ++round) {
    told.clear();
    bind_weights(net, layout, flatten(net, layout, pool));
    gradient = pool.take_zeros(layout.parameter_end);
    bind_gradients(net, layout, gradient);
    seen = 0;
    backward(net);
    CHECK(told == indices{1, 3});
    CHECK(seen > 0);  // the gradient is already there
  }
}

TEST_CASE("a gradient is told after its tensor was given other data") {
  odd_network net;
  indices told;
  watch_gradients(net, [&](std::size_t index) { told.push_back(index); });
  backward(net);
  for (const auto& [name, tensor] : net.parameters()) {
    tensor.mutable_grad().reset();
    tensor.set_data(at::ones(tensor.sizes()));
  }
  told.clear();
  backward(net);
  CHECK(told == indices{1, 3});
}

TEST_CASE("every built-in model uses all of its parameters in a training step") {
  CHECK(without_gradient(*std::make_unique<odd_network>(), two_by_two, loss_function::cross_entropy) == indices{0, 2});
  for (const auto& kind : network_kinds()) {
    CAPTURE(kind.name);
    if (kind.fits == nullptr) continue;
    network_shape shape{.input = {3, 32, 32}, .classes = 4, .layers = {}, .width = {}};
    auto fed = sample_kind::images;
    if (kind.fits(sample_kind::characters, {.input = {16}, .classes = 30})) {
      shape = {.input = {16}, .classes = 30, .layers = 2, .width = 32, .heads = 4};
      fed = sample_kind::characters;
    } else if (kind.step != nullptr) {
      fed = sample_kind::sparse;
      shape = kind.name == "matrix_completion" ? network_shape{.input = {5, 4}, .classes = 0}
                                               : network_shape{.input = {9}, .classes = 2};
    } else if (kind.name == "wide_resnet") {
      shape.layers = 10;
      shape.width = 1;
    } else if (kind.name == "wide_resnet_pooled") {
      shape.width = 1;
    }
    const auto net = make_network(kind, shape, 1);
    CHECK(without_gradient(*net, shape, net->loss(), fed, fed == sample_kind::characters).empty());
  }
}

}  // namespace gradient_hooks_test
