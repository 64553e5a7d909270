// NovoGrad: stochastic gradients normalised layer by layer by a scalar second moment per layer (Ginsburg et al. 2019,
// "Stochastic gradient methods with layer-wise adaptive moments for training of deep networks", algorithm 1), with the
// defaults and the first step of the package torch_optimizer (NovoGrad, version 0.3.0).
#pragma once

#include "troupe/algorithms/training/optimizer.hpp"

#include <memory>

namespace troupe {

/// Makes the optimizer. Each of options.tensors is a layer. v ← ‖g‖² if v = 0, as in the first step, otherwise β₂v +
/// (1−β₂)‖g‖²; d = g/(√v+ε) + λw; m ← β₁m + d with m₀ = 0, or β₁m + (1−β₁)d with grad_averaging; w ← w − lr·m. With
/// starts_at_gradient the first m is d, as in the paper, whether or not gradients are averaged.
std::unique_ptr<optimizer> make_novograd(const optimizer_options& options);

}  // namespace troupe
