// Classifies the first 100 test images of the built-in digits with weights that `troupe run` saved.
#include "troupe/model.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <iostream>
#include <numeric>

int main(int argc, char** argv) {
  if (argc != 2) return std::cerr << "usage: classify model.safetensors\n", 2;
  const at::NoGradGuard no_gradients;
  const auto saved = troupe::checkpoint::read_safetensors(argv[1]);
  const auto card = troupe::checkpoint::card_of(argv[1], saved);
  const auto net = troupe::models::make_network(*troupe::models::find_network(card.model), {}, 0);
  const auto layout = troupe::models::layout_of(*net);
  troupe::models::buffer_pool pool;
  troupe::models::bind_weights(*net, layout, troupe::checkpoint::load_into(argv[1], saved, card.model, layout, pool));
  net->train(false);

  const auto digits = troupe::data::find_dataset("digits")->load({});
  std::vector<std::int64_t> first(100);
  std::iota(first.begin(), first.end(), 0);
  const auto images = troupe::data::make_batch(*digits.test, card.scale, first);
  const auto right = net->forward(images.inputs).argmax(1).eq(images.targets).sum().item<std::int64_t>();
  std::cout << right << " of 100 right\n";
}
