// The optimizers of LibTorch (torch::optim).
#pragma once

#include "troupe/algorithms/training/optimizer.hpp"

#include <memory>

namespace troupe {

std::unique_ptr<optimizer> make_sgd(const optimizer_options& options);
std::unique_ptr<optimizer> make_adam(const optimizer_options& options);
std::unique_ptr<optimizer> make_adamw(const optimizer_options& options);

}  // namespace troupe
