// Residual networks of basic blocks (He, Zhang, Ren, Sun 2015) with the names, the operations and the initialisers of
// torchvision's: resnet18 of table 1, and resnet20 of section 4.2, whose shortcuts between stages are convolutions of
// 1 x 1 as in resnet18 (option B). 11,181,642 and 272,474 parameters for ten classes of images in three channels.
#include "troupe/models/batch_norm.hpp"
#include "troupe/models/module.hpp"

#include <ATen/Functions.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

namespace troupe::models {

namespace {

torch::nn::Conv2d convolution(std::int64_t from, std::int64_t to, std::int64_t side, std::int64_t stride) {
  return torch::nn::Conv2d{torch::nn::Conv2dOptions(from, to, side).stride(stride).padding(side / 2).bias(false)};
}

// What a shortcut does where a block changes the number of channels or the size.
class projection final : public torch::nn::Module {
 public:
  projection(std::int64_t from, std::int64_t to, std::int64_t stride)
      : conv{register_module("0", convolution(from, to, 1, stride))}, norm{register_module("1", BatchNorm2d(to))} {}

  at::Tensor forward(const at::Tensor& x) { return norm->forward(conv->forward(x)); }

 private:
  torch::nn::Conv2d conv;
  BatchNorm2d norm;
};

// y = relu(x' + bn2(conv2(relu(bn1(conv1(x)))))), x' the shortcut.
class block final : public torch::nn::Module {
 public:
  block(std::int64_t from, std::int64_t to, std::int64_t stride) {
    // Drawn first, as torchvision does, and registered last.
    auto shortcut = stride == 1 && from == to ? nullptr : std::make_shared<projection>(from, to, stride);
    conv1 = register_module("conv1", convolution(from, to, 3, stride));
    bn1 = register_module("bn1", BatchNorm2d(to));
    conv2 = register_module("conv2", convolution(to, to, 3, 1));
    bn2 = register_module("bn2", BatchNorm2d(to));
    if (shortcut) downsample = register_module("downsample", std::move(shortcut));
  }

  at::Tensor forward(const at::Tensor& x) {
    at::Tensor y = bn1->forward(conv1->forward(x)).relu_();
    y = bn2->forward(conv2->forward(y));
    y += downsample ? downsample->forward(x) : x;
    return y.relu_();
  }

 private:
  torch::nn::Conv2d conv1{nullptr}, conv2{nullptr};
  BatchNorm2d bn1{nullptr}, bn2{nullptr};
  std::shared_ptr<projection> downsample;
};

// Blocks of one width; the first one has the stride.
class stage final : public torch::nn::Module {
 public:
  stage(std::int64_t from, std::int64_t to, std::int64_t stride, int count) {
    for (int index = 0; index < count; ++index) {
      blocks.push_back(register_module(std::to_string(index),
                                       std::make_shared<block>(index == 0 ? from : to, to, index == 0 ? stride : 1)));
    }
  }

  at::Tensor forward(at::Tensor x) {
    for (const auto& each : blocks) x = each->forward(x);
    return x;
  }

 private:
  std::vector<std::shared_ptr<block>> blocks;
};

// What the two differ in.
struct plan {
  std::int64_t stem_side, stem_stride;
  bool pooled;                       ///< Whether the stem ends in max pooling.
  std::vector<std::int64_t> widths;  ///< One stage each; every one but the first halves the image.
  int blocks;                        ///< Of a stage.
};

class ResnetImpl final : public random_module {
 public:
  ResnetImpl(const plan& plan, const network_shape& shape) : pooled{plan.pooled} {
    std::int64_t width = plan.widths.front();
    conv1 = register_module("conv1", convolution(shape.input[0], width, plan.stem_side, plan.stem_stride));
    bn1 = register_module("bn1", BatchNorm2d(width));
    for (const std::int64_t next : plan.widths) {
      const std::int64_t stride = stages.empty() ? 1 : 2;
      stages.push_back(register_module("layer" + std::to_string(stages.size() + 1),
                                       std::make_shared<stage>(width, next, stride, plan.blocks)));
      width = next;
    }
    fc = register_module("fc", torch::nn::Linear(width, shape.classes));
    // Once all is made: the draws of the default initialisers come before these.
    for (const auto& child : modules(/*include_self=*/false)) {
      if (const auto conv = std::dynamic_pointer_cast<torch::nn::Conv2dImpl>(child)) {
        torch::nn::init::kaiming_normal_(conv->weight, 0, torch::kFanOut, torch::kReLU);
      }
    }
  }

  at::Tensor forward(const at::Tensor& input) override {
    at::Tensor x = bn1->forward(conv1->forward(input)).relu_();
    if (pooled) x = at::max_pool2d(x, 3, 2, 1);
    for (const auto& each : stages) x = each->forward(x);
    return fc->forward(at::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
  }

 private:
  bool pooled;
  torch::nn::Conv2d conv1{nullptr};
  BatchNorm2d bn1{nullptr};
  std::vector<std::shared_ptr<stage>> stages;
  torch::nn::Linear fc{nullptr};
};

std::unique_ptr<network> made(const std::string& name, const plan& plan, const network_shape& shape) {
  require_images(name, shape, 1);
  return as_network(std::make_shared<ResnetImpl>(plan, shape), loss_kind::cross_entropy);
}

}  // namespace

std::unique_ptr<network> make_resnet18(const network_shape& shape) {
  return made("resnet18", {7, 2, true, {64, 128, 256, 512}, 2}, shape);
}

std::unique_ptr<network> make_resnet20(const network_shape& shape) {
  return made("resnet20", {3, 1, false, {16, 32, 64}, 3}, shape);
}

}  // namespace troupe::models
