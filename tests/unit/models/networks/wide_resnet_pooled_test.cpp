#include "tests/support/doctest.hpp"

#include "troupe/models/networks/network.hpp"
#include "troupe/models/storage/flat.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/max_pool2d.h>

#include <map>
#include <stdexcept>

namespace wide_resnet_pooled_test {

using namespace troupe::models;

namespace {

std::unique_ptr<network> pooled(const network_shape& shape) {
  return make_network(*find_network("wide_resnet_pooled"), shape, 1);
}

at::Tensor pictures(std::int64_t count, std::int64_t channels, std::int64_t side) {
  return at::arange(count * channels * side * side, at::kFloat).sin().reshape({count, channels, side, side});
}

std::map<std::string, at::Tensor> states_of(const network& net) {
  std::map<std::string, at::Tensor> states;
  for (const auto& [name, tensor] : net.parameters()) states.emplace(name, tensor.detach());
  for (const auto& [name, tensor] : net.buffers()) states.emplace(name, tensor.detach());
  return states;
}

/// Computes relu(batch norm(convolution)) in evaluation mode with PyTorch's functions.
at::Tensor unit(const std::map<std::string, at::Tensor>& states, const std::string& prefix, const std::string& number,
                const at::Tensor& x) {
  const auto of = [&](const std::string& name) { return states.at(prefix + name); };
  const auto norm = "bn" + number;
  return at::batch_norm(at::conv2d(x, of("conv" + number + ".weight"), {}, 1, 1), of(norm + ".weight"),
                        of(norm + ".bias"), of(norm + ".running_mean"), of(norm + ".running_var"), false, 0.1, 1e-5,
                        false)
      .relu();
}

}  // namespace

TEST_CASE("wide_resnet_pooled has the published number of parameters, registered in the order of a forward pass") {
  const auto net = pooled({});
  const flat_layout layout = layout_of(*net);
  CHECK(layout.parameter_count == 17'117'466);
  CHECK(layout_of(*pooled({.input = {3, 32, 32}})).parameter_count == 17'117'466 + 2 * 9 * 16);
  const auto& all = layout.parameters;
  std::vector<std::string> names;
  for (const auto& each : all) names.push_back(each.name);
  const std::vector<std::string> first{"conv1.weight",           "bn1.weight",           "bn1.bias",
                                       "block1.conv1.weight",    "block1.bn1.weight",    "block1.bn1.bias",
                                       "block1.conv2.weight",    "block1.bn2.weight",    "block1.bn2.bias",
                                       "block1.shortcut.weight", "block1.shortcut.bias", "block2.conv1.weight"};
  CHECK(std::vector(names.begin(), names.begin() + 12) == first);
  CHECK(names[names.size() - 2] == "fc.weight");
  CHECK((all[all.size() - 2].shape == std::vector<std::int64_t>{10, 640}));
  CHECK(net->norm_channels() ==
        std::vector<std::int64_t>{16, 160, 160, 160, 160, 320, 320, 320, 320, 640, 640, 640, 640});
}

TEST_CASE("wide_resnet_pooled is its formula") {
  for (const std::int64_t side : {28, 32, 57}) {
    CAPTURE(side);
    const auto net = pooled({.input = {1, side, side}, .classes = 3, .width = 1});
    for (const auto& [name, tensor] : net->buffers())
      if (tensor.dim() == 1) tensor.uniform_(0.5, 1.5, at::detail::createCPUGenerator(2));
    net->train(false);
    const auto states = states_of(*net);
    at::Tensor x = unit(states, "", "1", pictures(2, 1, side));
    for (int index = 1; index <= 6; ++index) {
      if (index == 3 || index == 5) x = at::max_pool2d(x, 2);
      const auto prefix = "block" + std::to_string(index) + ".";
      const auto y = unit(states, prefix, "2", unit(states, prefix, "1", x));
      const auto shortcut = states.find(prefix + "shortcut.weight");
      CHECK((shortcut != states.end()) == (index == 3 || index == 5));  // 16 to 16 channels: no change of width
      x = y + (shortcut == states.end() ? x : at::conv2d(x, shortcut->second, states.at(prefix + "shortcut.bias")));
    }
    const auto positions = side / 28;
    x = at::avg_pool2d(x, 7);
    CHECK(x.sizes() == at::IntArrayRef{2, 64, positions, positions});
    const auto scores = at::addmm(states.at("fc.bias"), x.flatten(1), states.at("fc.weight").t());
    CHECK(at::allclose(net->forward(pictures(2, 1, side)), scores, 1e-4, 1e-4));
  }
}

TEST_CASE("wide_resnet_pooled refuses images whose last map is smaller than its average pooling") {
  CHECK_THROWS_WITH_AS(
      pooled({.input = {1, 28, 27}}),
      "wide_resnet_pooled requires images of at least 1 x 28 x 28 (channels, height, width) and at least "
      "one class, not images of 1 x 28 x 27 in 10 classes",
      std::invalid_argument);
}

TEST_CASE("wide_resnet_pooled drops one value in a hundred unless told otherwise") {
  const auto scores = [](std::optional<double> dropout, std::uint64_t key) {
    const auto net = pooled({.width = 1, .dropout = dropout});
    net->draw_from(at::detail::createCPUGenerator(key));
    return net->forward(pictures(4, 1, 28)).detach();
  };
  const auto usual = scores({}, 3);
  CHECK(scores({}, 3).equal(usual));
  CHECK(scores(0.01, 3).equal(usual));
  CHECK_FALSE(scores({}, 4).equal(usual));
  CHECK(scores(0.0, 3).equal(scores(0.0, 4)));
}

}  // namespace wide_resnet_pooled_test
