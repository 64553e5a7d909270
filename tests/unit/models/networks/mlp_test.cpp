#include "tests/support/doctest.hpp"

#include "troupe/models/networks/network.hpp"
#include "troupe/models/storage/flat.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>

#include <stdexcept>

namespace mlp_test {

using namespace troupe::models;

namespace {

std::unique_ptr<network> make(const network_shape& shape) {
  return make_network(*find_network("mlp"), shape, 1);
}

}  // namespace

TEST_CASE("an mlp has as many hidden layers of one width as it is told, and an output layer") {
  const auto usual = layout_of(*make({}));
  CHECK(usual.parameter_count == 784 * 128 + 128 + 128 * 128 + 128 + 128 * 10 + 10);
  CHECK(usual.parameters.back().name == "fc3.bias");
  const auto other = layout_of(*make({.input = {5}, .classes = 3, .layers = 1, .width = 4}));
  CHECK(other.parameter_count == 5 * 4 + 4 + 4 * 3 + 3);
}

TEST_CASE("an mlp without classes gives a number for each sample, and learns by squares") {
  const auto net = make({.input = {5}, .classes = 0, .layers = 1, .width = 4});
  CHECK(net->loss() == loss_function::mse);
  const at::Tensor input = at::rand({3, 5});
  const auto parameters = net->parameters();
  const at::Tensor hidden = at::linear(input, parameters[0].second, parameters[1].second).clamp_min(0);
  const at::Tensor right = at::linear(hidden, parameters[2].second, parameters[3].second).squeeze(1);
  CHECK(net->forward(input).sizes() == at::IntArrayRef{3});
  CHECK(at::allclose(net->forward(input), right));
}

TEST_CASE("an mlp refuses samples that are no numbers") {
  CHECK_THROWS_AS(make({.input = {}}), std::invalid_argument);
  CHECK_THROWS_AS(make({.input = {4}})->forward(at::zeros({2, 4}, at::kLong)), std::invalid_argument);
}

}  // namespace mlp_test
