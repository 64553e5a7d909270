// A wide residual network (after Zagoruyko, Komodakis 2016) whose blocks normalise after they convolve and which halves
// images by max pooling rather than by strides, as in a laboratory exercise on data-parallel training of Fashion-MNIST.
// The widths are 16, 16k, 32k and 64k, with k = 10 by default; the initialisers are PyTorch's defaults. It has
// 17,117,466 parameters with the defaults for ten classes of images in one channel.
#include "troupe/models/networks/batch_norm.hpp"
#include "troupe/models/networks/max_pool.hpp"
#include "troupe/models/networks/module.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/avg_pool2d.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <functional>

namespace troupe::models {

namespace {

using dropping = std::function<at::Tensor(const at::Tensor&)>;

constexpr std::int64_t pooled_side = 7;               // side of the last average pooling, in pixels
constexpr std::int64_t least_side = 4 * pooled_side;  // least side of an image, which is halved twice
constexpr double usual_dropout = 0.01;

torch::nn::Conv2d pooled_convolution(std::int64_t from, std::int64_t to) {
  return torch::nn::Conv2d{torch::nn::Conv2dOptions(from, to, 3).padding(1).bias(false)};
}

// y = x' + a2, a1 = relu(bn1(conv1(x))), a2 = relu(bn2(conv2(drop(a1)))). The shortcut x' is x or, where the width
// changes, a 1 x 1 convolution of x with a bias.
class pooled_block final : public torch::nn::Module {
 public:
  pooled_block(std::int64_t from, std::int64_t to) {
    conv1 = register_module("conv1", pooled_convolution(from, to));
    bn1 = register_module("bn1", BatchNorm2d(to));
    conv2 = register_module("conv2", pooled_convolution(to, to));
    bn2 = register_module("bn2", BatchNorm2d(to));
    if (from != to) shortcut = register_module("shortcut", torch::nn::Conv2d(torch::nn::Conv2dOptions(from, to, 1)));
  }

  at::Tensor forward(const at::Tensor& x, const dropping& drop) {
    const at::Tensor a = drop(bn1->forward(conv1->forward(x)).relu_());
    const at::Tensor b = bn2->forward(conv2->forward(a)).relu_();
    return b + (shortcut.is_empty() ? x : shortcut->forward(x));
  }

 private:
  torch::nn::Conv2d conv1{nullptr}, conv2{nullptr}, shortcut{nullptr};
  BatchNorm2d bn1{nullptr}, bn2{nullptr};
};

class WideResnetPooledImpl final : public random_module {
 public:
  explicit WideResnetPooledImpl(const network_shape& shape) : share{shape.dropout.value_or(usual_dropout)} {
    const std::int64_t factor = shape.width.value_or(10);
    std::int64_t width = 16;
    conv1 = register_module("conv1", pooled_convolution(shape.input[0], width));
    bn1 = register_module("bn1", BatchNorm2d(width));
    for (const std::int64_t next : {16 * factor, 16 * factor, 32 * factor, 32 * factor, 64 * factor, 64 * factor}) {
      blocks.push_back(
          register_module("block" + std::to_string(blocks.size() + 1), std::make_shared<pooled_block>(width, next)));
      width = next;
    }
    const auto positions = [](std::int64_t side) { return side / least_side; };
    fc = register_module(
        "fc", torch::nn::Linear(width * positions(shape.input[1]) * positions(shape.input[2]), shape.classes));
  }

  at::Tensor forward(const at::Tensor& input) override {
    const dropping drop = [this](const at::Tensor& x) { return dropout(x, share); };
    at::Tensor x = bn1->forward(conv1->forward(input)).relu_();
    for (std::size_t index = 0; index < blocks.size(); ++index) {
      if (index == 2 || index == 4) x = max_pool_2x2(x);
      x = blocks[index]->forward(x, drop);
    }
    return fc->forward(at::avg_pool2d(x, pooled_side).flatten(1));
  }

 private:
  double share;
  torch::nn::Conv2d conv1{nullptr};
  BatchNorm2d bn1{nullptr};
  std::vector<std::shared_ptr<pooled_block>> blocks;
  torch::nn::Linear fc{nullptr};
};

}  // namespace

std::unique_ptr<network> make_wide_resnet_pooled(const network_shape& shape) {
  require_images("wide_resnet_pooled", shape, least_side);
  return as_built_in(std::make_shared<WideResnetPooledImpl>(shape), loss_function::cross_entropy);
}

}  // namespace troupe::models
