// Optimizers over flat storage: one tensor is all parameters. optimizer_kinds.hpp lists them.
#pragma once

#include "troupe/actors/messages.hpp"
#include "troupe/actors/rules/learning_rate.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

struct optimizer_options {
  std::string name{"sgd"};  ///< Of optimizer_kinds().
  double lr{0.01};
  double momentum{0};
  double weight_decay{0};
  bool nesterov{false};
  std::optional<double>
      clip_norm{};                 ///< Longest gradient (Euclidean norm over all parameters); longer ones are scaled.
  double l2_penalty{0};            ///< Times the weights, added to a gradient where it is computed; not by step().
  std::vector<range> undecayed{};  ///< Where parameters lie to which weight_decay does not apply: ascending, disjoint.
  bool grad_averaging{false};      ///< Of novograd.
  bool starts_at_gradient{false};  ///< Of novograd: m₁ is the first direction, as in the paper; else m₀ = 0.
  std::vector<double> betas{};     ///< Of adam, adamw (0.9, 0.999) and novograd (0.95, 0): two; empty: those.
  double eps{1e-8};                ///< Of them.
  learning_rate schedule{};        ///< What lr is multiplied by at a step.
  std::vector<range> tensors{};    ///< Of novograd, which has a moment for each: where the parameters lie.
};

/// Its state (momentum, moments) is that of the steps it has made. One thread at a time.
class optimizer {
 public:
  virtual ~optimizer() = default;

  /// Changes `weights` [P] in place by one step along `gradient` [P]. `weights` may be another tensor each time: the
  /// state follows the position, not the memory. SGD is PyTorch's: v ← μv + g + λp; p ← p − γv; with
  /// clip_norm, g is first scaled as PyTorch's clip_grad_norm_ does, out of place: it may be everybody's.
  /// `completed`: the steps before this one, by which the schedule goes.
  virtual void step(const at::Tensor& weights, const at::Tensor& gradient, double lr_scale,
                    std::uint64_t completed) = 0;
};

/// Returns the options of an optimizer for `where` alone, [first, first + count) of the flat storage, whose elements it
/// counts from 0. Each tensor lies in `where` as a whole or not at all.
optimizer_options within(optimizer_options options, const range& where);

/// Throws std::invalid_argument for an unknown name.
std::unique_ptr<optimizer> make_optimizer(const optimizer_options& options);

}  // namespace troupe
