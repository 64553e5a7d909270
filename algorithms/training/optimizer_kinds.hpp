// The optimizers that a topology file can name, each with the keys of [optimizer] that it uses. A new optimizer needs
// a row of the table and a file.
#pragma once

#include "troupe/algorithms/training/optimizer.hpp"

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

/// An optimizer that a topology file can name.
struct optimizer_kind {
  std::string name{};                ///< Value of optimizer.name.
  std::string explanation{};         ///< One line that states the update.
  std::vector<std::string> reads{};  ///< Keys that only some optimizers use, such as momentum, betas, grad_averaging.
  bool by_layer{false};              ///< Treats each of optimizer_options::tensors as a unit.
  /// Makes the optimizer. Throws std::invalid_argument if the options do not fit.
  std::function<std::unique_ptr<optimizer>(const optimizer_options&)> make{};
  std::vector<setting> settings{};  ///< Keys of its own in the section [optimizer]; see optimizer_options::settings.
  /// Whether step() itself leaves out tensors without a gradient. Otherwise, make_optimizer() sees to it: such tensors
  /// and their part of the state, in all its tensors [P], are restored after the step.
  bool skips_tensors{false};
};

/// Returns all optimizers, in the order in which `troupe list` shows them.
const std::deque<optimizer_kind>& optimizer_kinds();

/// Returns the optimizer of this name, or nullptr.
const optimizer_kind* find_optimizer(const std::string& name);

/// Adds an optimizer to those that topology files can name. Call it first in a program's main(), or from a plug-in.
/// Throws std::invalid_argument if the name is taken, `make` is empty, or `reads` has a key that is not one of
/// momentum, nesterov, betas, eps, grad_averaging and moment_start.
void register_optimizer(optimizer_kind kind);

/// Returns whether `kind` uses this key of [optimizer]: one of its own keys or one that all optimizers use.
bool goes_by(const optimizer_kind& kind, const std::string& key);

/// Returns the betas given in the options, or else `first` and `second`.
std::pair<double, double> betas_of(const optimizer_options& options, double first, double second);

/// Throws state_error unless `saved` is empty or has exactly the entries `names`.
void check_entries(const state_dict& saved, const std::vector<std::string>& names);

/// Throws state_error unless a restored tensor has one element for each of `parameters`.
void check_size(const at::Tensor& restored, std::int64_t parameters);

}  // namespace troupe
