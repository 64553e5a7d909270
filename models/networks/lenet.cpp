// A LeNet-like network (after LeCun et al. 1998) in which nothing is random: with equal batches, any number of workers
// must reach the same weights. It has 129,068 parameters for 28 x 28 images of one channel.
#include "troupe/models/networks/module.hpp"

#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

namespace troupe::models {

namespace {

// Returns the side of an image after convolutions of 3 x 3 and 5 x 5, each followed by pooling of 2 x 2.
std::int64_t lenet_side(std::int64_t side) {
  return ((side - 2) / 2 - 4) / 2;
}

class LenetImpl final : public random_module {
 public:
  explicit LenetImpl(const network_shape& shape) {
    conv1 = register_module("conv1", torch::nn::Conv2d(torch::nn::Conv2dOptions(shape.input[0], 20, 3)));
    conv2 = register_module("conv2", torch::nn::Conv2d(torch::nn::Conv2dOptions(20, 50, 5)));
    fc1 = register_module("fc1", torch::nn::Linear(50 * lenet_side(shape.input[1]) * lenet_side(shape.input[2]), 128));
    fc2 = register_module("fc2", torch::nn::Linear(128, shape.classes));
  }

  at::Tensor forward(const at::Tensor& input) override {
    at::Tensor x = at::avg_pool2d(at::relu(conv1(input)), 2);  // [N, 20, 13, 13] for 28 x 28
    x = at::avg_pool2d(at::relu(conv2(x)), 2);                 // [N, 50, 4, 4]
    return fc2(at::relu(fc1(x.flatten(1))));
  }

 private:
  torch::nn::Conv2d conv1{nullptr}, conv2{nullptr};
  torch::nn::Linear fc1{nullptr}, fc2{nullptr};
};

}  // namespace

std::unique_ptr<network> make_lenet(const network_shape& shape) {
  require_images("lenet", shape, 14);
  return as_built_in(std::make_shared<LenetImpl>(shape), loss_function::cross_entropy);
}

}  // namespace troupe::models
