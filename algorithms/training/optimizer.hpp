// Optimizers over flat storage, where one tensor holds all parameters. optimizer_kinds.hpp lists them.
#pragma once

#include "troupe/algorithms/messages/part.hpp"
#include "troupe/algorithms/messages/state_dict.hpp"
#include "troupe/algorithms/rules/learning_rate.hpp"
#include "troupe/files/setting.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// An optimizer and its hyperparameters.
struct optimizer_options {
  std::string name{"sgd"};  ///< Name of a row of optimizer_kinds().
  double lr{0.01};          ///< Learning rate before the schedule is applied.
  double momentum{0};       ///< Momentum of SGD, μ.
  double weight_decay{0};   ///< Weight decay, λ.
  bool nesterov{false};     ///< Whether SGD uses Nesterov momentum.
  /// Maximum gradient norm (Euclidean, over all parameters); larger gradients are scaled down.
  std::optional<double> clip_norm{};
  /// Multiple of the weights that is added to a gradient where it is computed; step() ignores it.
  double l2_penalty{0};
  /// Ranges of the parameters to which weight_decay does not apply: ascending and disjoint.
  std::vector<range> undecayed{};
  bool grad_averaging{false};  ///< Used only by novograd.
  /// Used only by novograd: m₁ is the first direction, as in the paper; otherwise m₀ = 0.
  bool starts_at_gradient{false};
  /// Two betas, used only by adam and adamw (default 0.9, 0.999) and novograd (default 0.95, 0); empty for the
  /// defaults.
  std::vector<double> betas{};
  double eps{1e-8};          ///< Used only by adam, adamw and novograd.
  learning_rate schedule{};  ///< Factor by which lr is multiplied at each step.
  /// Ranges of the parameter tensors, ascending. Used by novograd, which has one moment per tensor, and wherever a step
  /// may give no gradient to some of them; otherwise empty. See rules/missing_gradients.hpp.
  std::vector<range> tensors{};
  std::optional<std::int64_t> parameters{};  ///< Number of parameters if known; restore() then checks it.
  setting_values settings{};                 ///< Values of optimizer_kind::settings.
};

/// An optimizer whose state (momentum, moments) reflects the steps it has taken. One thread at a time.
class optimizer {
 public:
  virtual ~optimizer() = default;

  /// Updates `weights` [P] in place by one step along `gradient` [P]. `weights` may be a different tensor each time:
  /// the state belongs to the position, not to the memory. SGD follows PyTorch: v ← μv + g + λp; p ← p − γv. With
  /// clip_norm, g is first scaled as by PyTorch's clip_grad_norm_, but out of place because g may be shared. Those
  /// optimizer_options::tensors that have no gradient keep their values and their state. `completed` is the number of
  /// previous steps, which the schedule uses.
  virtual void step(const at::Tensor& weights, const at::Tensor& gradient, double lr_scale,
                    std::uint64_t completed) = 0;

  /// Returns copies of the tensors and counters that the next step depends on, on the CPU; empty if no step was taken
  /// or nothing is kept between steps. Each tensor covers all parameters, whichever ranges are undecayed.
  virtual state_dict state() const = 0;

  /// Continues from a state(); the next steps are then those of the optimizer that returned it, bit for bit. Throws
  /// state_error if `saved` does not fit. If optimizer_options::parameters is empty, a tensor of the wrong size is
  /// found by the next step() instead.
  virtual void restore(const state_dict& saved) = 0;
};

/// Returns the options of an optimizer for the range `where` of the flat storage only, with elements counted from the
/// start of that range. Each tensor must lie in `where` completely or not at all.
optimizer_options within(optimizer_options options, const range& where);

/// Makes the optimizer. Throws std::invalid_argument if the name is unknown.
std::unique_ptr<optimizer> make_optimizer(const optimizer_options& options);

}  // namespace troupe
