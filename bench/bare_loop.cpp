// The baseline of bench/overhead.py: a training loop written with LibTorch alone. It uses the modules and the optimizer
// of LibTorch, and the digits in memory, normalised beforehand; no actors, no messages, no flat storage.
//
//   bare_loop STEPS BATCH main|thread     prints samples per second, and the mean loss, which shows that it learned
//
// bare_loop_jemalloc is the same program with the allocator of the troupe command (decision 0010).
// thread: trains on another thread than the main thread, because memory is allocated differently there.
#include "troupe/data/sets/dataset.hpp"

#include <torch/torch.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <numeric>
#include <string_view>
#include <thread>
#include <vector>

extern "C" {
const char* malloc_conf = "thp:always,dirty_decay_ms:-1,muzzy_decay_ms:-1";  // as in apps/command.cpp
}

namespace {

struct ConvnetImpl : torch::nn::Module {
  torch::nn::Conv2d conv1{register_module("conv1", torch::nn::Conv2d(1, 10, 5))};
  torch::nn::Conv2d conv2{register_module("conv2", torch::nn::Conv2d(10, 20, 5))};
  torch::nn::Dropout2d drop{register_module("drop", torch::nn::Dropout2d())};
  torch::nn::Linear fc1{register_module("fc1", torch::nn::Linear(320, 50))};
  torch::nn::Linear fc2{register_module("fc2", torch::nn::Linear(50, 10))};

  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(torch::max_pool2d(conv1(x), 2));
    x = torch::relu(torch::max_pool2d(drop(conv2(x)), 2));
    x = torch::dropout(torch::relu(fc1(x.flatten(1))), 0.5, is_training());
    return torch::log_softmax(fc2(x), 1);
  }
};
TORCH_MODULE(Convnet);

void train(std::int64_t steps, std::int64_t batch) {
  torch::set_num_threads(1);
  torch::manual_seed(1);

  const auto digits = troupe::data::find_dataset("digits")->load({});
  std::vector<std::int64_t> samples(static_cast<std::size_t>(digits.train->size()));
  std::iota(samples.begin(), samples.end(), 0);
  const auto set = troupe::data::make_batch(*digits.train, digits.scale, samples);

  Convnet net;
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.5));
  const std::int64_t per_epoch = digits.train->size() / batch;
  torch::Tensor order;
  double loss_sum = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (std::int64_t step = 0; step < steps; ++step) {
    if (step % per_epoch == 0) order = torch::randperm(digits.train->size());
    const auto indices = order.narrow(0, step % per_epoch * batch, batch);
    optimizer.zero_grad();
    const auto loss = torch::nll_loss(net(set.inputs.index_select(0, indices)), set.targets.index_select(0, indices));
    loss.backward();
    optimizer.step();
    loss_sum += loss.item<double>();
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  std::cout << static_cast<double>(steps * batch) / seconds.count() << " " << loss_sum / static_cast<double>(steps)
            << "\n";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return std::cerr << "usage: bare_loop STEPS BATCH main|thread\n", 2;
  const std::int64_t steps = std::atoll(argv[1]);
  const std::int64_t batch = std::atoll(argv[2]);
  if (std::string_view{argv[3]} == "main") {
    train(steps, batch);
  } else {
    std::thread{train, steps, batch}.join();
  }
}
