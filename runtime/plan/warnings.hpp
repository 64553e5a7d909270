// What is legal in a topology file, and surely not meant.
#pragma once

#include "troupe/runtime/plan/plan.hpp"

#include <string>
#include <vector>

namespace troupe {

/// Returns a line for each thing in a plan that a person may not have meant: what it does, and how to change it.
std::vector<std::string> warnings_of(const plan& plan);

/// Returns the warning for a model whose outputs are probabilities under a loss that takes scores, or nothing. `output`
/// is what the model returned for made-up samples.
std::vector<std::string> warnings_of_output(const at::Tensor& output, models::loss_kind loss);

}  // namespace troupe
