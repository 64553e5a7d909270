// Wide residual networks (Zagoruyko, Komodakis 2016, table 1 and section 2.4), whose blocks normalise before they
// convolve, with the names, the operations and the initialisers of github.com/xternalz/WideResNet-pytorch. They have
// 17,116,634 parameters with the defaults (WRN-16-10) for ten classes of images in three channels.
#include "troupe/models/networks/batch_norm.hpp"
#include "troupe/models/networks/module.hpp"

#include <ATen/ops/adaptive_avg_pool2d.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <functional>

namespace troupe::models {

namespace {

using dropping = std::function<at::Tensor(const at::Tensor&)>;

torch::nn::Conv2d wide_convolution(std::int64_t from, std::int64_t to, std::int64_t side, std::int64_t stride) {
  return torch::nn::Conv2d{torch::nn::Conv2dOptions(from, to, side).stride(stride).padding(side / 2).bias(false)};
}

// y = x' + conv2(drop(relu(bn2(conv1(a))))), a = relu(bn1(x)). The shortcut x' is x or, where the width changes, a
// convolution of a.
class wide_block final : public torch::nn::Module {
 public:
  wide_block(std::int64_t from, std::int64_t to, std::int64_t stride) {
    bn1 = register_module("bn1", BatchNorm2d(from));
    conv1 = register_module("conv1", wide_convolution(from, to, 3, stride));
    bn2 = register_module("bn2", BatchNorm2d(to));
    conv2 = register_module("conv2", wide_convolution(to, to, 3, 1));
    if (from != to) shortcut = register_module("convShortcut", wide_convolution(from, to, 1, stride));
  }

  at::Tensor forward(const at::Tensor& x, const dropping& drop) {
    const at::Tensor a = bn1->forward(x).relu_();
    const at::Tensor b = bn2->forward(conv1->forward(a)).relu_();
    return (shortcut.is_empty() ? x : shortcut->forward(a)) + conv2->forward(drop(b));
  }

 private:
  BatchNorm2d bn1{nullptr}, bn2{nullptr};
  torch::nn::Conv2d conv1{nullptr}, conv2{nullptr}, shortcut{nullptr};
};

// Blocks of one width; only the first has the stride.
class group final : public torch::nn::Module {
 public:
  group(std::int64_t from, std::int64_t to, std::int64_t stride, std::int64_t count) {
    const auto layer = register_module("layer", std::make_shared<torch::nn::Module>());
    for (std::int64_t index = 0; index < count; ++index) {
      blocks.push_back(layer->register_module(
          std::to_string(index), std::make_shared<wide_block>(index == 0 ? from : to, to, index == 0 ? stride : 1)));
    }
  }

  at::Tensor forward(at::Tensor x, const dropping& drop) {
    for (const auto& block : blocks) x = block->forward(x, drop);
    return x;
  }

 private:
  std::vector<std::shared_ptr<wide_block>> blocks;
};

class WideResnetImpl final : public random_module {
 public:
  explicit WideResnetImpl(const network_shape& shape) : share{shape.dropout.value_or(0)} {
    const std::int64_t factor = shape.width.value_or(10), count = shape.layers.value_or(2);
    std::int64_t width = 16;
    conv1 = register_module("conv1", wide_convolution(shape.input[0], width, 3, 1));
    for (const std::int64_t next : {16 * factor, 32 * factor, 64 * factor}) {
      const std::int64_t stride = groups.empty() ? 1 : 2;
      groups.push_back(register_module("block" + std::to_string(groups.size() + 1),
                                       std::make_shared<group>(width, next, stride, count)));
      width = next;
    }
    bn1 = register_module("bn1", BatchNorm2d(width));
    fc = register_module("fc", torch::nn::Linear(width, shape.classes));
    // After all modules are made: the default initialisers draw before these.
    for (const auto& child : modules(/*include_self=*/false)) {
      if (const auto conv = std::dynamic_pointer_cast<torch::nn::Conv2dImpl>(child)) {
        torch::nn::init::kaiming_normal_(conv->weight, 0, torch::kFanOut, torch::kReLU);
      }
    }
    torch::nn::init::zeros_(fc->bias);
  }

  at::Tensor forward(const at::Tensor& input) override {
    const dropping drop = [this](const at::Tensor& x) { return dropout(x, share); };
    at::Tensor x = conv1->forward(input);
    for (const auto& stage : groups) x = stage->forward(x, drop);
    return fc->forward(at::adaptive_avg_pool2d(bn1->forward(x).relu_(), {1, 1}).flatten(1));
  }

 private:
  double share;
  torch::nn::Conv2d conv1{nullptr};
  std::vector<std::shared_ptr<group>> groups;
  BatchNorm2d bn1{nullptr};
  torch::nn::Linear fc{nullptr};
};

}  // namespace

std::unique_ptr<network> make_wide_resnet(const network_shape& shape) {
  require_images("wide_resnet", shape, 1);
  return as_built_in(std::make_shared<WideResnetImpl>(shape), loss_function::cross_entropy);
}

}  // namespace troupe::models
