// Warnings about topology files that are legal but probably not intended.
#pragma once

#include "troupe/runtime/plan/plan.hpp"

#include <string>
#include <vector>

namespace troupe {

/// Returns one line per warning: what the plan does, and how to change it.
std::vector<std::string> warnings_of(const plan& plan);

/// Returns a warning if the model returns probabilities but the loss expects scores; else nothing. `output` is the
/// model's output for generated samples, [b, classes, …].
std::vector<std::string> warnings_of_output(const at::Tensor& output, models::loss_kind loss);

}  // namespace troupe
