// Linear layers with ReLU between them, for images or lists of numbers. With the defaults, it has 118,282 parameters
// for 28 x 28 images of one channel and ten classes.
#include "troupe/models/networks/module.hpp"

#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <stdexcept>

namespace troupe::models {

namespace {

class MlpImpl final : public random_module {
 public:
  explicit MlpImpl(const network_shape& shape) : share{shape.dropout.value_or(0)}, number{shape.classes == 0} {
    std::int64_t from = std::accumulate(shape.input.begin(), shape.input.end(), std::int64_t{1}, std::multiplies{});
    const auto add = [&](std::int64_t to) {
      layers.push_back(register_module("fc" + std::to_string(layers.size() + 1), torch::nn::Linear(from, to)));
      from = to;
    };
    const std::int64_t width = shape.width.value_or(128);
    for (std::int64_t hidden = shape.layers.value_or(2); hidden > 0; --hidden) add(width);
    add(number ? 1 : shape.classes);
  }

  at::Tensor forward(const at::Tensor& input) override {
    require_numbers("mlp", input);
    at::Tensor x = input.flatten(1);
    for (auto& layer : layers) {
      x = layer->forward(x);
      if (&layer != &layers.back()) x = dropout(x.relu_(), share);
    }
    return number ? x.squeeze(1) : x;
  }

 private:
  double share;
  bool number;
  std::vector<torch::nn::Linear> layers;
};

}  // namespace

std::unique_ptr<network> make_mlp(const network_shape& shape) {
  const bool fits = !shape.input.empty() && shape.classes >= 0 &&
                    std::all_of(shape.input.begin(), shape.input.end(), [](std::int64_t size) { return size >= 1; });
  if (!fits) throw std::invalid_argument("mlp requires images [C, H, W] or numbers [D], not " + given(shape));
  return as_built_in(std::make_shared<MlpImpl>(shape),
                     shape.classes == 0 ? loss_function::mse : loss_function::cross_entropy);
}

}  // namespace troupe::models
