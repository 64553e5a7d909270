// VGG of eleven layers (Simonyan, Zisserman 2014, table 1, column A) in its usual form for CIFAR: one linear layer
// after the convolutions, with the names and the order of the module of github.com/kuangliu/pytorch-cifar. It has
// 9,225,610 parameters for ten classes of images in three channels, and 9,231,114 with batch norm.
#include "troupe/models/networks/batch_norm.hpp"
#include "troupe/models/networks/max_pool.hpp"
#include "troupe/models/networks/module.hpp"

#include <ATen/ops/adaptive_avg_pool2d.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

namespace troupe::models {

namespace {

constexpr std::int64_t pooled = 0;  ///< Marks max pooling of 2 x 2 in the list of widths.
constexpr std::int64_t widths[] = {64, pooled, 128, pooled, 256, 256, pooled, 512, 512, pooled, 512, 512, pooled};

// The layers, named by their positions in Python's list, in which each ReLU and each pooling also has a position but no
// weights.
class features final : public torch::nn::Module {
 public:
  features(std::int64_t channels, bool normalised) {
    int place = 0;
    for (const std::int64_t width : widths) {
      layer next{.conv{nullptr}, .norm{nullptr}};
      if (width == pooled) {
        ++place;
      } else {
        next.conv = register_module(std::to_string(place++), convolution(channels, width));
        if (normalised) next.norm = register_module(std::to_string(place++), BatchNorm2d(width));
        ++place;
        channels = width;
      }
      layers.push_back(std::move(next));
    }
  }

  at::Tensor forward(at::Tensor x) {
    for (auto& entry : layers) {
      if (entry.conv.is_empty()) {
        x = max_pool_2x2(x);
        continue;
      }
      x = entry.conv->forward(x);
      if (!entry.norm.is_empty()) x = entry.norm->forward(x);
      x = x.relu_();
    }
    return x;
  }

 private:
  struct layer {
    torch::nn::Conv2d conv;  ///< Empty: max pooling.
    BatchNorm2d norm;        ///< Empty: no batch norm.
  };

  static torch::nn::Conv2d convolution(std::int64_t from, std::int64_t to) {
    return torch::nn::Conv2d{torch::nn::Conv2dOptions(from, to, 3).padding(1)};
  }

  std::vector<layer> layers;
};

class VggImpl final : public random_module {
 public:
  VggImpl(const network_shape& shape, bool normalised)
      : convolutions{register_module("features", std::make_shared<features>(shape.input[0], normalised))},
        classifier{register_module("classifier", torch::nn::Linear(512, shape.classes))} {}

  // Images of 32 x 32 have shrunk to one pixel, whose average is itself.
  at::Tensor forward(const at::Tensor& input) override {
    return classifier->forward(at::adaptive_avg_pool2d(convolutions->forward(input), {1, 1}).flatten(1));
  }

 private:
  std::shared_ptr<features> convolutions;
  torch::nn::Linear classifier;
};

std::unique_ptr<network> make_vgg(const std::string& name, const network_shape& shape, bool normalised) {
  require_images(name, shape, 32);
  return as_built_in(std::make_shared<VggImpl>(shape, normalised), loss_function::cross_entropy);
}

}  // namespace

std::unique_ptr<network> make_vgg11(const network_shape& shape) {
  return make_vgg("vgg11", shape, false);
}

std::unique_ptr<network> make_vgg11_bn(const network_shape& shape) {
  return make_vgg("vgg11_bn", shape, true);
}

}  // namespace troupe::models
