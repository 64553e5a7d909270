// NovoGrad: stochastic gradients normalised layer by layer, by a second moment that is one number for each (Ginsburg et
// al. 2019, "Stochastic gradient methods with layer-wise adaptive moments for training of deep networks", algorithm 1,
// with gradient averaging: the first moment takes (1 − β₁) of what is new).
#pragma once

#include "troupe/actors/optimizer.hpp"

#include <memory>

namespace troupe {

/// A layer is one of options.tensors. First step: v = ‖g‖², m = g/(√v+ε) + d·w; the paper has no ε there, which keeps a
/// layer without a gradient finite. Then v ← β₂v + (1−β₂)‖g‖², m ← β₁m + (1−β₁)(g/(√v+ε) + d·w). Always w ← w − lr·m.
std::unique_ptr<optimizer> make_novograd(const optimizer_options& options);

}  // namespace troupe
