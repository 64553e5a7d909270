// Residual networks of basic blocks (He, Zhang, Ren, Sun 2015) with the names, the operations and the initialisers of
// torchvision: resnet18 of table 1, and resnet20 of section 4.2, whose shortcuts between stages are 1 x 1 convolutions
// as in resnet18 (option B) or subsample and pad with zeros (option A). They have 11,181,642 and 272,474 (option A:
// 269,722) parameters for ten classes of images in three channels.
//
// resnet18_small_images is the form for small images of Zhang, Lipton, Li, Smola, "Dive into Deep Learning", section
// 13.6: a stem of 3 x 3 without pooling, biases in all convolutions, shortcuts without batch norm, and PyTorch's
// default initialisers. It has 11,175,818 parameters for ten classes of images in one channel.
#include "troupe/models/networks/batch_norm.hpp"
#include "troupe/models/networks/module.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/max_pool2d.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

namespace troupe::models {

namespace {

torch::nn::Conv2d convolution(std::int64_t from, std::int64_t to, std::int64_t side, std::int64_t stride,
                              bool bias = false) {
  return torch::nn::Conv2d{torch::nn::Conv2dOptions(from, to, side).stride(stride).padding(side / 2).bias(bias)};
}

// The shortcut of a block that changes the number of channels or the size.
enum class shortcut_kind : std::uint8_t {
  normalized,   // A convolution of 1 x 1 and batch norm.
  convolution,  // A convolution of 1 x 1 with a bias.
  padded        // Every stride-th pixel, and channels of zeros before and after.
};

class projection final : public torch::nn::Module {
 public:
  projection(std::int64_t from, std::int64_t to, std::int64_t stride)
      : conv{register_module("0", convolution(from, to, 1, stride))}, norm{register_module("1", BatchNorm2d(to))} {}

  at::Tensor forward(const at::Tensor& x) { return norm->forward(conv->forward(x)); }

 private:
  torch::nn::Conv2d conv;
  BatchNorm2d norm;
};

// Keeps every stride-th pixel of x and adds the missing channels as zeros: half of them before the channels of x and
// the rest after them.
at::Tensor padded(const at::Tensor& x, std::int64_t channels, std::int64_t stride) {
  const std::int64_t missing = channels - x.size(1), before = missing / 2;
  return at::constant_pad_nd(x.slice(2, 0, std::nullopt, stride).slice(3, 0, std::nullopt, stride),
                             {0, 0, 0, 0, before, missing - before});
}

// y = relu(x' + bn2(conv2(relu(bn1(conv1(x)))))), x' the shortcut.
class residual_block final : public torch::nn::Module {
 public:
  struct sizes {
    std::int64_t from, to, stride;
  };

  residual_block(const sizes& of, shortcut_kind kind, bool bias) : of{of} {
    const bool changes = of.stride != 1 || of.from != of.to;
    // Drawn first, as in torchvision, and registered last.
    auto normalized = changes && kind == shortcut_kind::normalized
                          ? std::make_shared<projection>(of.from, of.to, of.stride)
                          : nullptr;
    conv1 = register_module("conv1", convolution(of.from, of.to, 3, of.stride, bias));
    bn1 = register_module("bn1", BatchNorm2d(of.to));
    conv2 = register_module("conv2", convolution(of.to, of.to, 3, 1, bias));
    bn2 = register_module("bn2", BatchNorm2d(of.to));
    pads = changes && kind == shortcut_kind::padded;
    if (normalized) downsample = register_module("downsample", std::move(normalized));
    if (changes && kind == shortcut_kind::convolution)
      convolved = register_module("downsample", convolution(of.from, of.to, 1, of.stride, true));
  }

  at::Tensor forward(const at::Tensor& x) {
    at::Tensor y = bn1->forward(conv1->forward(x)).relu_();
    y = bn2->forward(conv2->forward(y));
    y += shortcut(x);
    return y.relu_();
  }

 private:
  at::Tensor shortcut(const at::Tensor& x) {
    if (downsample) return downsample->forward(x);
    if (convolved) return convolved->forward(x);
    return pads ? padded(x, of.to, of.stride) : x;
  }

  sizes of;
  torch::nn::Conv2d conv1{nullptr}, conv2{nullptr}, convolved{nullptr};
  BatchNorm2d bn1{nullptr}, bn2{nullptr};
  std::shared_ptr<projection> downsample;
  bool pads{false};
};

// The settings in which the networks differ.
struct plan {
  std::int64_t stem_side, stem_stride;
  bool pooled;                       ///< Whether the stem ends in max pooling.
  std::vector<std::int64_t> widths;  ///< Width of each stage; every stage but the first halves the image.
  int blocks;                        ///< Number of blocks in a stage.
  shortcut_kind shortcut{shortcut_kind::normalized};
  bool bias{false};    ///< Whether convolutions have a bias.
  bool kaiming{true};  ///< Whether to initialise convolutions as in torchvision; otherwise as PyTorch does.
};

// Blocks of one width; only the first has the stride.
class stage final : public torch::nn::Module {
 public:
  stage(const residual_block::sizes& first, const plan& plan) {
    for (int index = 0; index < plan.blocks; ++index) {
      const residual_block::sizes sizes = index == 0 ? first : residual_block::sizes{first.to, first.to, 1};
      blocks.push_back(
          register_module(std::to_string(index), std::make_shared<residual_block>(sizes, plan.shortcut, plan.bias)));
    }
  }

  at::Tensor forward(at::Tensor x) {
    for (const auto& block : blocks) x = block->forward(x);
    return x;
  }

 private:
  std::vector<std::shared_ptr<residual_block>> blocks;
};

class ResnetImpl final : public random_module {
 public:
  ResnetImpl(const plan& plan, const network_shape& shape) : pooled{plan.pooled} {
    std::int64_t width = plan.widths.front();
    conv1 = register_module("conv1", convolution(shape.input[0], width, plan.stem_side, plan.stem_stride, plan.bias));
    bn1 = register_module("bn1", BatchNorm2d(width));
    for (const std::int64_t next : plan.widths) {
      const std::int64_t stride = stages.empty() ? 1 : 2;
      stages.push_back(register_module("layer" + std::to_string(stages.size() + 1),
                                       std::make_shared<stage>(residual_block::sizes{width, next, stride}, plan)));
      width = next;
    }
    fc = register_module("fc", torch::nn::Linear(width, shape.classes));
    if (!plan.kaiming) return;
    // After all modules are made: the default initialisers draw before these.
    for (const auto& child : modules(/*include_self=*/false)) {
      if (const auto conv = std::dynamic_pointer_cast<torch::nn::Conv2dImpl>(child)) {
        torch::nn::init::kaiming_normal_(conv->weight, 0, torch::kFanOut, torch::kReLU);
      }
    }
  }

  at::Tensor forward(const at::Tensor& input) override {
    at::Tensor x = bn1->forward(conv1->forward(input)).relu_();
    if (pooled) x = at::max_pool2d(x, 3, 2, 1);
    for (const auto& layer : stages) x = layer->forward(x);
    return fc->forward(at::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
  }

 private:
  bool pooled;
  torch::nn::Conv2d conv1{nullptr};
  BatchNorm2d bn1{nullptr};
  std::vector<std::shared_ptr<stage>> stages;
  torch::nn::Linear fc{nullptr};
};

std::unique_ptr<network> make_residual_network(const std::string& name, const plan& plan, const network_shape& shape) {
  require_images(name, shape, 1);
  return as_built_in(std::make_shared<ResnetImpl>(plan, shape), loss_function::cross_entropy);
}

}  // namespace

std::unique_ptr<network> make_resnet18(const network_shape& shape) {
  return make_residual_network("resnet18", {7, 2, true, {64, 128, 256, 512}, 2}, shape);
}

std::unique_ptr<network> make_resnet18_small_images(const network_shape& shape) {
  return make_residual_network("resnet18_small_images",
                               {.stem_side = 3,
                                .stem_stride = 1,
                                .pooled = false,
                                .widths = {64, 128, 256, 512},
                                .blocks = 2,
                                .shortcut = shortcut_kind::convolution,
                                .bias = true,
                                .kaiming = false},
                               shape);
}

std::unique_ptr<network> make_resnet20(const network_shape& shape) {
  const auto shortcut = shape.padded_shortcuts ? shortcut_kind::padded : shortcut_kind::normalized;
  return make_residual_network("resnet20", {3, 1, false, {16, 32, 64}, 3, shortcut}, shape);
}

}  // namespace troupe::models
