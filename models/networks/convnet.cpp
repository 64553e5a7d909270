// The network of PyTorch's MNIST example as it was until 2019 (pytorch/examples, mnist/main.py): 21,840 parameters
// for 28 x 28 images of one channel. The first linear layer adapts to other image sizes.
#include "troupe/models/networks/max_pool.hpp"
#include "troupe/models/networks/module.hpp"

#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

namespace troupe::models {

namespace {

// Returns the side of an image after two convolutions of 5 x 5, each followed by pooling of 2 x 2.
std::int64_t convnet_side(std::int64_t side) {
  return ((side - 4) / 2 - 4) / 2;
}

class ConvnetImpl final : public random_module {
 public:
  explicit ConvnetImpl(const network_shape& shape) {
    conv1 = register_module("conv1", torch::nn::Conv2d(torch::nn::Conv2dOptions(shape.input[0], 10, 5)));
    conv2 = register_module("conv2", torch::nn::Conv2d(torch::nn::Conv2dOptions(10, 20, 5)));
    fc1 =
        register_module("fc1", torch::nn::Linear(20 * convnet_side(shape.input[1]) * convnet_side(shape.input[2]), 50));
    fc2 = register_module("fc2", torch::nn::Linear(50, shape.classes));
  }

  at::Tensor forward(const at::Tensor& input) override {
    at::Tensor x = at::relu(max_pool_2x2(conv1(input)));   // [N, 10, 12, 12] for 28 x 28
    x = at::relu(max_pool_2x2(dropout2d(conv2(x), 0.5)));  // [N, 20, 4, 4]
    x = dropout(at::relu(fc1(x.flatten(1))), 0.5);         // [N, 50]
    return at::log_softmax(fc2(x), 1);
  }

 private:
  torch::nn::Conv2d conv1{nullptr}, conv2{nullptr};
  torch::nn::Linear fc1{nullptr}, fc2{nullptr};
};

}  // namespace

std::unique_ptr<network> make_convnet(const network_shape& shape) {
  require_images("convnet", shape, 16);
  return as_built_in(std::make_shared<ConvnetImpl>(shape), loss_function::nll);
}

}  // namespace troupe::models
