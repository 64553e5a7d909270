// Classifies the first 100 test images of the built-in digits with weights that `troupe run` saved.
#include "troupe/data/dataset.hpp"
#include "troupe/models/flat.hpp"
#include "troupe/models/network.hpp"
#include "troupe/runtime/checkpoint/safetensors.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <iostream>
#include <numeric>

int main(int argc, char** argv) {
  if (argc != 2) return std::cerr << "usage: classify model.safetensors\n", 2;
  const at::NoGradGuard no_gradients;
  const auto saved = troupe::checkpoint::read_safetensors(argv[1]);
  const auto net = troupe::models::make_network(*troupe::models::find_network(saved.metadata.at("model")), {}, 0);
  for (auto& [name, parameter] : net->parameters()) {
    for (const auto& [saved_name, values] : saved.tensors) {
      if (saved_name == name) parameter.copy_(values);
    }
  }
  net->train(false);

  const auto digits = troupe::data::find_dataset("digits")->load({});
  std::vector<std::int64_t> first(100);
  std::iota(first.begin(), first.end(), 0);
  const auto images = troupe::data::make_batch(*digits.test, digits.scale, first);
  const auto right = net->forward(images.inputs).argmax(1).eq(images.targets).sum().item<std::int64_t>();
  std::cout << right << " of 100 right\n";
}
