// The optimizers that a topology file can name, each under its name with the keys of [optimizer] that it goes by. A new
// one is a row of the table and a file.
#pragma once

#include "troupe/actors/optimizer.hpp"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

struct optimizer_kind {
  std::string name;
  std::string explanation;         ///< One line, with the step.
  std::vector<std::string> reads;  ///< Keys that not every optimizer reads, such as momentum, betas, grad_averaging.
  bool by_layer{false};            ///< Looks at each of optimizer_options::tensors as a whole.
  std::unique_ptr<optimizer> (*make)(const optimizer_options&);
};

const std::vector<optimizer_kind>& optimizer_kinds();

/// Returns the optimizer of this name, or nullptr.
const optimizer_kind* find_optimizer(const std::string& name);

/// Says whether `kind` goes by this key of [optimizer]: one of its own, or one that all go by.
bool goes_by(const optimizer_kind& kind, const std::string& key);

/// Returns the two betas that are given, or else these.
std::pair<double, double> betas_of(const optimizer_options& options, double first, double second);

}  // namespace troupe
