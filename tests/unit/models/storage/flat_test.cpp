#include "troupe/models/storage/flat.hpp"

#include "tests/support/doctest.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <map>

namespace flat_test {

using namespace troupe::models;

namespace {

// y = x · (weight + alias)ᵀ: a tied, a frozen, an unused parameter; a float and an integer buffer.
class small_network : public network {
 public:
  small_network() {
    const at::Tensor weight = at::arange(6, at::kFloat).reshape({2, 3}).requires_grad_();
    parameters_ = {{"first.weight", weight},
                   {"first.frozen", at::ones({5})},
                   {"second.weight", weight},
                   {"second.bias", at::full({17}, 2.0f).requires_grad_()}};
    buffers_ = {{"norm.mean", at::full({3}, 5.0f)}, {"norm.count", at::zeros({}, at::kLong)}};
  }
  at::Tensor forward(const at::Tensor& input) override { return input.mm((tensor(0) + tensor(2)).t()); }
  void train(bool) override {}
  void draw_from(at::Generator) override {}
  named_tensors parameters() const override { return parameters_; }
  named_tensors buffers() const override { return buffers_; }
  loss_function loss() const override { return loss_function::cross_entropy; }

  const at::Tensor& tensor(std::size_t index) const { return parameters_[index].second; }

 private:
  named_tensors parameters_, buffers_;
};

std::vector<float> values(const at::Tensor& tensor) {
  const at::Tensor whole = tensor.contiguous();
  return {whole.const_data_ptr<float>(), whole.const_data_ptr<float>() + whole.numel()};
}

}  // namespace

TEST_CASE("the layout places each learnable tensor once, on 64-byte boundaries, buffers last") {
  const flat_layout layout = layout_of(small_network{});
  REQUIRE(layout.parameters.size() == 2);
  CHECK(layout.parameters[0].name == "first.weight");
  CHECK(layout.parameters[0].shape == std::vector<std::int64_t>{2, 3});
  CHECK(layout.parameters[0].first == 0);
  CHECK(layout.parameters[1].name == "second.bias");
  CHECK(layout.parameters[1].first == 16);
  CHECK(layout.parameters[1].count == 17);
  REQUIRE(layout.buffers.size() == 1);
  CHECK(layout.buffers[0].name == "norm.mean");
  CHECK(layout.buffers[0].first == 48);
  CHECK(layout.parameter_end == 48);
  CHECK(layout.total == 64);
  CHECK(layout.parameter_count == 23);
}

TEST_CASE("a flattened network holds its weights, and zeros between them") {
  small_network net;
  buffer_pool pool;
  pool.take(64).fill_(9);  // memory that has been used
  const at::Tensor flat = flatten(net, layout_of(net), pool);
  std::vector<float> expected(64, 0.0f);
  for (int index = 0; index < 6; ++index) expected[static_cast<std::size_t>(index)] = static_cast<float>(index);
  std::fill_n(expected.begin() + 16, 17, 2.0f);
  std::fill_n(expected.begin() + 48, 3, 5.0f);
  CHECK(values(flat) == expected);
}

TEST_CASE("bound weights are views: no element is copied, and tensors keep their identity") {
  small_network net;
  buffer_pool pool;
  const flat_layout layout = layout_of(net);
  const at::Tensor flat = flatten(net, layout, pool);
  bind_weights(net, layout, flat);
  CHECK(net.tensor(0).data_ptr() == flat.data_ptr());
  CHECK(net.tensor(2).data_ptr() == flat.data_ptr());
  CHECK(net.tensor(3).data_ptr() == flat.const_data_ptr<float>() + 16);
  CHECK(net.buffers()[0].second.data_ptr() == flat.const_data_ptr<float>() + 48);
  CHECK(net.tensor(0).requires_grad());
  CHECK(net.tensor(0).is_leaf());
  flat.fill_(3);
  CHECK(values(net.tensor(0)) == std::vector<float>(6, 3));
  CHECK(values(net.tensor(1)) == std::vector<float>(5, 1));  // frozen, so not in the flat tensor

  SUBCASE("and can be pointed elsewhere, which gives the first memory back") {
    const void* first = flat.data_ptr();
    at::Tensor other = pool.take_zeros(layout.total);
    bind_weights(net, layout, other);
    CHECK(values(net.tensor(0)) == std::vector<float>(6, 0));
    const_cast<at::Tensor&>(flat).reset();
    CHECK(pool.take(layout.total).data_ptr() == first);
  }
}

TEST_CASE("backward adds into the flat gradient, what the unflattened network computes") {
  small_network plain, flat;
  buffer_pool pool;
  const flat_layout layout = layout_of(flat);
  bind_weights(flat, layout, flatten(flat, layout, pool));
  const at::Tensor gradient = pool.take_zeros(layout.parameter_end);
  bind_gradients(flat, layout, gradient);
  const at::Tensor input = at::arange(12, at::kFloat).reshape({4, 3});
  plain.forward(input).pow(2).sum().backward();
  for (int times = 1; times <= 2; ++times) {
    flat.forward(input).pow(2).sum().backward();
    CHECK(values(gradient.narrow(0, 0, 6)) == values(plain.tensor(0).grad() * times));
    CHECK(gradient.narrow(0, 6, 42).abs().max().item<float>() == 0);  // padding, and an unused parameter
  }
}

TEST_CASE("an unflattened tensor is a set of named views") {
  small_network net;
  buffer_pool pool;
  const flat_layout layout = layout_of(net);
  const at::Tensor flat = flatten(net, layout, pool);
  const network::named_tensors tensors = unflatten(layout, flat);
  REQUIRE(tensors.size() == 3);
  CHECK(tensors[0].first == "first.weight");
  CHECK(tensors[0].second.sizes() == at::IntArrayRef{2, 3});
  CHECK(tensors[2].first == "norm.mean");
  CHECK(values(tensors[2].second) == std::vector<float>{5, 5, 5});
  flat.zero_();
  CHECK(tensors[0].second.abs().sum().item<float>() == 0);
  CHECK_FALSE(tensors[0].second.requires_grad());
}

TEST_CASE("what does not fit the layout is refused") {
  small_network net;
  buffer_pool pool;
  flat_layout layout = layout_of(net);
  CHECK_THROWS_AS(bind_weights(net, layout, pool.take(layout.parameter_end)), std::invalid_argument);
  CHECK_THROWS_AS(bind_gradients(net, layout, pool.take(layout.total)), std::invalid_argument);
  CHECK_THROWS_AS(bind_weights(net, layout, at::zeros({layout.total}, at::kDouble)), std::invalid_argument);
  SUBCASE("a tensor that the network lacks") {
    layout.parameters[1].name = "third.weight";
  }
  SUBCASE("another shape") {
    layout.parameters[0].shape = {3, 2};
  }
  CHECK_THROWS_AS(bind_weights(net, layout, pool.take(layout.total)), std::invalid_argument);
}

}  // namespace flat_test
