// The optimizers that a topology file can name, each with the keys of [optimizer] that it uses. A new optimizer needs
// a row of the table and a file.
#pragma once

#include "troupe/algorithms/training/optimizer.hpp"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

struct optimizer_kind {
  std::string name;
  std::string explanation;         ///< One line that states the update.
  std::vector<std::string> reads;  ///< Keys that only some optimizers use, such as momentum, betas, grad_averaging.
  bool by_layer{false};            ///< Treats each of optimizer_options::tensors as a unit.
  std::unique_ptr<optimizer> (*make)(const optimizer_options&);
};

const std::vector<optimizer_kind>& optimizer_kinds();

/// Returns the optimizer of this name, or nullptr.
const optimizer_kind* find_optimizer(const std::string& name);

/// Returns whether `kind` uses this key of [optimizer]: one of its own keys or one that all optimizers use.
bool goes_by(const optimizer_kind& kind, const std::string& key);

/// Returns the betas given in the options, or else `first` and `second`.
std::pair<double, double> betas_of(const optimizer_options& options, double first, double second);

/// Throws state_error unless `saved` is empty or has exactly the entries `names`.
void check_entries(const state_dict& saved, const std::vector<std::string>& names);

/// Throws state_error unless a restored tensor has one element for each of `parameters`.
void check_size(const at::Tensor& restored, std::int64_t parameters);

}  // namespace troupe
