#include "troupe/models/networks/network.hpp"

#include "tests/support/doctest.hpp"

#include "troupe/models/storage/flat.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/feature_dropout.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <thread>

namespace network_test {

using namespace troupe::models;

namespace {

std::unique_ptr<network> make(const char* name, std::uint64_t seed = 1, const network_shape& shape = {}) {
  return make_network(*find_network(name), shape, seed);
}

const at::Tensor tensor_of(const network& net, const std::string& name) {
  for (const auto& [known, tensor] : net.parameters()) {
    if (known == name) return tensor.detach();
  }
  throw std::out_of_range(name);
}

std::vector<std::string> names(const network& net) {
  std::vector<std::string> list;
  for (const auto& [name, tensor] : net.parameters()) list.push_back(name);
  return list;
}

at::Tensor pictures(std::int64_t count, std::int64_t channels = 1, std::int64_t side = 28) {
  return at::arange(count * channels * side * side, at::kFloat).sin().reshape({count, channels, side, side});
}

at::Tensor drawn(network& net, std::uint64_t key) {
  net.train(true);
  net.draw_from(at::detail::createCPUGenerator(key));
  return net.forward(pictures(4)).detach();
}

}  // namespace

TEST_CASE("networks have the published numbers of parameters, under PyTorch's names") {
  const std::vector<std::string> expected{"conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias",
                                          "fc1.weight",   "fc1.bias",   "fc2.weight",   "fc2.bias"};
  CHECK(layout_of(*make("convnet")).parameter_count == 21840);
  CHECK(layout_of(*make("lenet")).parameter_count == 129068);
  for (const auto* model : {"convnet", "lenet"}) CHECK(names(*make(model)) == expected);
  CHECK(find_network("transformer") == nullptr);
}

TEST_CASE("weights are a function of the seed, whatever other threads draw") {
  const at::Tensor first = tensor_of(*make("convnet", 3), "fc1.weight");
  at::rand({100});
  CHECK(at::equal(first, tensor_of(*make("convnet", 3), "fc1.weight")));
  CHECK_FALSE(at::equal(first, tensor_of(*make("convnet", 4), "fc1.weight")));
  std::vector<at::Tensor> made(4);
  std::vector<std::thread> threads;
  for (auto& weights : made) {
    threads.emplace_back([&weights] { weights = tensor_of(*make("convnet", 3), "fc1.weight"); });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& weights : made) CHECK(at::equal(first, weights));
}

TEST_CASE("weights are those of torch.manual_seed(1) in Python") {
  // torch.manual_seed(1); c = nn.Conv2d(1, 10, 5); c.weight.flatten()[:3], c.bias[:1]
  const auto net = make("convnet");
  const at::Tensor weight = tensor_of(*net, "conv1.weight").flatten();
  CHECK(weight[0].item<float>() == 0.103052638f);
  CHECK(weight[1].item<float>() == -0.0882756487f);
  CHECK(weight[2].item<float>() == -0.0387722962f);
  CHECK(tensor_of(*net, "conv1.bias")[0].item<float>() == 0.176301166f);
}

TEST_CASE("without training, convnet is its formula and returns log-probabilities") {
  const auto net = make("convnet");
  net->train(false);
  const at::Tensor input = pictures(3);
  const auto of = [&](const char* name) { return tensor_of(*net, name); };
  at::Tensor x = at::max_pool2d(at::conv2d(input, of("conv1.weight"), of("conv1.bias")), 2).clamp_min(0);
  x = at::max_pool2d(at::conv2d(x, of("conv2.weight"), of("conv2.bias")), 2).clamp_min(0).reshape({3, 320});
  x = at::addmm(of("fc1.bias"), x, of("fc1.weight").t()).clamp_min(0);
  x = at::addmm(of("fc2.bias"), x, of("fc2.weight").t());
  x = x - x.exp().sum(1, true).log();
  const at::Tensor output = net->forward(input);
  CHECK(at::allclose(output, x, 1e-5, 1e-5));
  CHECK(at::allclose(output.exp().sum(1), at::ones({3})));
  CHECK(net->loss() == loss_function::nll);
}

TEST_CASE("lenet is its formula, in training too") {
  const auto net = make("lenet");
  const at::Tensor input = pictures(3);
  const auto of = [&](const char* name) { return tensor_of(*net, name); };
  at::Tensor x = at::avg_pool2d(at::conv2d(input, of("conv1.weight"), of("conv1.bias")).clamp_min(0), 2);
  x = at::avg_pool2d(at::conv2d(x, of("conv2.weight"), of("conv2.bias")).clamp_min(0), 2).reshape({3, 800});
  x = at::addmm(of("fc1.bias"), x, of("fc1.weight").t()).clamp_min(0);
  x = at::addmm(of("fc2.bias"), x, of("fc2.weight").t());
  CHECK(at::allclose(net->forward(input), x, 1e-5, 1e-5));
  net->train(true);
  CHECK(at::allclose(net->forward(input), x, 1e-5, 1e-5));
  CHECK(net->loss() == loss_function::cross_entropy);
}

TEST_CASE("dropout is a function of the generator") {
  const auto net = make("convnet");
  const at::Tensor first = drawn(*net, 11);
  CHECK(at::equal(first, drawn(*net, 11)));
  CHECK_FALSE(at::equal(first, drawn(*net, 12)));
  net->train(false);
  const at::Tensor calm = net->forward(pictures(4));
  net->draw_from(at::detail::createCPUGenerator(13));
  CHECK(at::equal(calm, net->forward(pictures(4))));
}

TEST_CASE("dropout draws what PyTorch draws from a generator in the same state") {
  const auto net = make("convnet");
  const auto of = [&](const char* name) { return tensor_of(*net, name); };
  at::manual_seed(5);
  at::Tensor x = at::relu(at::max_pool2d(at::conv2d(pictures(4), of("conv1.weight"), of("conv1.bias")), 2));
  x = at::feature_dropout(at::conv2d(x, of("conv2.weight"), of("conv2.bias")), 0.5, true);
  x = at::relu(at::max_pool2d(x, 2)).flatten(1);
  x = at::dropout(at::relu(at::linear(x, of("fc1.weight"), of("fc1.bias"))), 0.5, true);
  x = at::log_softmax(at::linear(x, of("fc2.weight"), of("fc2.bias")), 1);
  CHECK(at::equal(drawn(*net, 5), x));
}

TEST_CASE("networks take other image sizes and numbers of classes") {
  for (const auto& kind : network_kinds()) {
    if (kind.step != nullptr) continue;                        // for sparse samples
    if (kind.name == "gpt" || kind.fits == nullptr) continue;  // for texts, and from files
    const auto net = make(kind.name.c_str(), 1, {.input = {3, 32, 32}, .classes = 7});
    CHECK(net->forward(pictures(2, 3, 32)).sizes() == at::IntArrayRef{2, 7});
  }
}

TEST_CASE("a shape that a network cannot take is refused with the shape it takes") {
  CHECK_THROWS_WITH_AS(
      make("convnet", 1, {.input = {1, 15, 28}}),
      "convnet requires images of at least 1 x 16 x 16 (channels, height, width) and at least one class, "
      "not images of 1 x 15 x 28 in 10 classes",
      std::invalid_argument);
  CHECK_THROWS_AS(make("lenet", 1, {.input = {784}}), std::invalid_argument);
  CHECK_THROWS_AS(make("lenet", 1, {.classes = 0}), std::invalid_argument);
  CHECK_NOTHROW(make("convnet", 1, {.input = {1, 16, 16}})->forward(pictures(1, 1, 16)));
  CHECK_NOTHROW(make("lenet", 1, {.input = {1, 14, 14}})->forward(pictures(1, 1, 14)));
}

TEST_CASE("a model takes exactly the images for which the registry says so") {
  const auto square = [](std::int64_t side) { return network_shape{.input = {1, side, side}, .classes = 2}; };
  for (const auto& kind : network_kinds()) {
    if (!kind.takes.starts_with("images of")) continue;
    CAPTURE(kind.name);
    std::int64_t side = 1;
    while (!kind.fits(sample_kind::images, square(side))) ++side;
    CHECK(kind.takes.find(" " + std::to_string(side) + " x ") != std::string::npos);
    CHECK_THROWS_AS(kind.make(square(side - 1)), std::invalid_argument);
    CHECK_NOTHROW(kind.make(square(side)));
  }
}

TEST_CASE("every model but a script takes one kind of samples, and no others") {
  const network_shape image{}, numbers{.input = {8}, .classes = 0}, text{.input = {8}, .classes = 5},
      rows{.input = {8}, .classes = 2}, ratings{.input = {8, 9}, .classes = 0};
  const auto fitting = [](sample_kind samples, const network_shape& shape) {
    std::string all;
    for (const auto& kind : network_kinds())
      if (kind.fits != nullptr && kind.fits(samples, shape)) all += kind.name + " ";
    return all;
  };
  CHECK(fitting(sample_kind::images, image) ==
        "convnet lenet resnet20 resnet18 resnet18_small_images wide_resnet wide_resnet_pooled mlp ");
  CHECK(fitting(sample_kind::numbers, numbers) == "mlp ");
  CHECK(fitting(sample_kind::characters, text) == "gpt ");
  CHECK(fitting(sample_kind::sparse, rows) == "logistic svm ");
  CHECK(fitting(sample_kind::sparse, ratings) == "matrix_completion ");
}

TEST_CASE("residual networks have the published numbers of parameters") {
  CHECK(layout_of(*make("resnet20", 1, {.input = {3, 32, 32}})).parameter_count == 272474);
  CHECK(layout_of(*make("resnet18", 1, {.input = {3, 224, 224}, .classes = 1000})).parameter_count == 11689512);
  CHECK(layout_of(*make("resnet18", 1, {.input = {3, 32, 32}})).parameter_count == 11181642);
}

TEST_CASE("residual networks name their states as torchvision does") {
  const auto net = make("resnet20");
  std::vector<std::string> states = names(*net);
  CHECK(states.size() == 65);
  CHECK(states[0] == "conv1.weight");
  CHECK(states[2] == "bn1.bias");
  CHECK(states[3] == "layer1.0.conv1.weight");
  for (const auto& [name, tensor] : net->buffers()) states.push_back(name);
  for (const auto* name : {"layer2.0.downsample.0.weight", "layer2.0.downsample.1.running_var", "layer3.2.bn2.bias",
                           "layer1.1.bn1.num_batches_tracked", "fc.bias"}) {
    CAPTURE(name);
    CHECK(std::find(states.begin(), states.end(), name) != states.end());
  }
  CHECK(net->norm_channels().size() == 21);
  CHECK(net->norm_channels().front() == 16);
  CHECK(net->norm_channels().back() == 64);
  CHECK(net->counts("bn1.num_batches_tracked"));
  CHECK_FALSE(net->counts("bn1.running_mean"));
  CHECK(make("lenet")->norm_channels().empty());
}

TEST_CASE("resnet18_small_images has the published number of parameters, under torchvision's names") {
  const auto net = make("resnet18_small_images");
  CHECK(layout_of(*net).parameter_count == 11'175'818);
  const auto all = names(*net);
  const std::vector<std::string> first{"conv1.weight",          "conv1.bias",         "bn1.weight", "bn1.bias",
                                       "layer1.0.conv1.weight", "layer1.0.conv1.bias"};
  CHECK(std::vector(all.begin(), all.begin() + 6) == first);
  for (const auto* stage : {"layer2", "layer3", "layer4"}) {
    const auto width = tensor_of(*net, std::string(stage) + ".0.bn2.bias").numel();
    CHECK((tensor_of(*net, std::string(stage) + ".0.downsample.weight").sizes() ==
           at::IntArrayRef{width, width / 2, 1, 1}));
    CHECK(tensor_of(*net, std::string(stage) + ".0.downsample.bias").numel() == width);
  }
  CHECK(std::count_if(all.begin(), all.end(),
                      [](const auto& name) { return name.find("downsample") != std::string::npos; }) == 6);
  CHECK(net->norm_channels().size() == 17);
}

TEST_CASE("resnet18_small_images begins with PyTorch's default weights, and is its formula in the first blocks") {
  const auto net = make("resnet18_small_images");
  // Uniform within 1/sqrt(fan-in): PyTorch's default for convolutions.
  const auto weight = tensor_of(*net, "layer4.1.conv2.weight");
  const double bound = 1 / std::sqrt(512.0 * 9);
  CHECK(weight.abs().max().item<double>() <= bound);
  CHECK(weight.std().item<double>() == doctest::Approx(bound / std::sqrt(3.0)).epsilon(0.01));
  // In training, a norm whose weights are zero: of block 2.0, only the shortcut of relu(stem) is left.
  const at::NoGradGuard unrecorded;
  for (const auto& [name, tensor] : net->parameters())
    if (name.find(".bn2.") != std::string::npos) tensor.zero_();
  at::Tensor x = pictures(2, 1, 28);
  x = at::conv2d(x, tensor_of(*net, "conv1.weight"), tensor_of(*net, "conv1.bias"), 1, 1);
  x = at::batch_norm(x, {}, {}, {}, {}, true, 0.1, 1e-5, false).relu();
  for (const auto* stage : {"layer2", "layer3", "layer4"}) {
    const auto of = [&](const char* name) { return tensor_of(*net, std::string(stage) + ".0.downsample." + name); };
    x = at::conv2d(x, of("weight"), of("bias"), 2).relu();
  }
  CHECK(x.sizes() == at::IntArrayRef{2, 512, 4, 4});
  x = at::addmm(tensor_of(*net, "fc.bias"), x.mean({2, 3}), tensor_of(*net, "fc.weight").t());
  CHECK(at::allclose(net->forward(pictures(2, 1, 28)), x, 1e-4, 1e-5));
}

TEST_CASE("resnet20 pads its shortcuts where it is told to, without parameters") {
  const network_shape padded{.input = {3, 32, 32}, .padded_shortcuts = true};
  const auto net = make("resnet20", 1, padded);
  CHECK(layout_of(*net).parameter_count == 269'722);
  CHECK(net->norm_channels().size() == 19);
  const at::NoGradGuard unrecorded;
  for (const auto& [name, tensor] : net->parameters()) {
    CHECK(name.find("downsample") == std::string::npos);
    if (name.find(".bn2.") != std::string::npos) tensor.zero_();
  }
  // Only the shortcuts of the blocks are left: every second pixel, and 8 and 16 channels of zeros on either side.
  for (const std::int64_t side : {32, 13}) {
    at::Tensor x = at::conv2d(pictures(2, 3, side), tensor_of(*net, "conv1.weight"), {}, 1, 1);
    x = at::batch_norm(x, {}, {}, {}, {}, true, 0.1, 1e-5, false).relu();
    for (const std::int64_t beside : {8, 16}) {
      x = x.slice(2, 0, std::nullopt, 2).slice(3, 0, std::nullopt, 2);
      const auto zeros = at::zeros({2, beside, x.size(2), x.size(3)});
      x = at::cat({zeros, x, zeros}, 1);
    }
    x = at::addmm(tensor_of(*net, "fc.bias"), x.mean({2, 3}), tensor_of(*net, "fc.weight").t());
    CHECK(at::allclose(net->forward(pictures(2, 3, side)), x, 1e-4, 1e-5));
  }
}

TEST_CASE("normal weights have their moments, and leave norms and biases alone unless told otherwise") {
  const auto own = make("resnet18_small_images", 3);
  network_shape shape;
  shape.normal = normal_initializer{.deviation = 0.01};
  const auto drawn_anew = make("resnet18_small_images", 3, shape), again = make("resnet18_small_images", 3, shape),
             other = make("resnet18_small_images", 4, shape);
  for (const auto& [name, tensor] : drawn_anew->parameters()) {
    CAPTURE(name);
    CHECK(tensor.equal(tensor_of(*again, name)));
    if (tensor.dim() == 1) {
      CHECK(tensor.equal(tensor_of(*own, name)));
      continue;
    }
    CHECK_FALSE(tensor.equal(tensor_of(*other, name)));
    const double n = static_cast<double>(tensor.numel());  // five standard errors on either side
    CHECK(std::abs(tensor.mean().item<double>()) < 5 * 0.01 / std::sqrt(n));
    CHECK(std::abs(tensor.std().item<double>() / 0.01 - 1) < 5 / std::sqrt(2 * n));
    CHECK((tensor.abs() > 0.03).sum().item<double>() < 0.0027 * n + 5 * std::sqrt(0.0027 * n));
  }
  shape.normal->zero_biases = true;
  const auto zeroed = make("resnet18_small_images", 3, shape);
  for (const auto& [name, tensor] : zeroed->parameters()) {
    CAPTURE(name);
    const bool norm = name.find("bn") != std::string::npos;
    if (tensor.dim() == 1 && !norm)
      CHECK(tensor.eq(0).all().item<bool>());
    else
      CHECK(tensor.equal(tensor_of(*drawn_anew, name)));
  }
}

TEST_CASE("normal weights are drawn after the model's own, in the order of its layers") {
  network_shape shape;
  shape.normal = normal_initializer{.deviation = 0.5};
  const auto net = make("lenet", 5, shape);
  make("lenet", 5);  // advances the process-wide generator as construction does
  for (const auto* name : {"conv1.weight", "conv2.weight", "fc1.weight", "fc2.weight"}) {
    const auto& tensor = tensor_of(*net, name);
    CAPTURE(name);
    CHECK(tensor_of(*net, name).equal(at::empty(tensor.sizes()).normal_(0, 0.5)));
  }
}

TEST_CASE("scripts and models of sparse samples have no weights to draw") {
  for (const auto& kind : network_kinds())
    CHECK(draws_normal_weights(kind) == (kind.step == nullptr && kind.fits != nullptr));
  CHECK_THROWS_AS(make("logistic", 1, {.input = {10}, .classes = 2, .normal = normal_initializer{}}),
                  std::invalid_argument);
}

TEST_CASE("residual networks refuse what is not an image") {
  CHECK_THROWS_AS(make("resnet20", 1, {.input = {784}}), std::invalid_argument);
  CHECK_THROWS_AS(make("resnet18", 1, {.input = {0, 28, 28}}), std::invalid_argument);
  CHECK_NOTHROW(make("resnet20", 1, {.input = {1, 1, 1}})->forward(pictures(2, 1, 1)));
}

TEST_CASE("losses are means over the batch") {
  const at::Tensor target = at::tensor({0, 1}, at::kLong);
  // Equal scores for two classes: log 2 for each sample.
  CHECK(mean_loss(loss_function::cross_entropy, at::zeros({2, 2}), target).item<double>() ==
        doctest::Approx(std::log(2.0)));
  // Log-probabilities are picked: (1 + 4) / 2.
  const at::Tensor picked = at::tensor({-1.0f, -2.0f, -3.0f, -4.0f}).reshape({2, 2});
  CHECK(mean_loss(loss_function::nll, picked, target).item<double>() == doctest::Approx(2.5));
}

}  // namespace network_test
