// Outer optimizers: steps on the mean of parameters that workers have trained apart from each other for a while.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace troupe {

/// How the mean of the workers' parameters becomes what all of them continue with.
enum class outer_rule : std::uint8_t {
  none,      ///< The mean itself: model averaging, local SGD.
  momentum,  ///< SGD with momentum on the outer gradient: FedAvgM, Hsu et al. 2019, section 4.3.
  nesterov,  ///< SGD with Nesterov momentum: DiLoCo, Douillard et al. 2023 (arXiv 2311.08105), algorithm 1.
  slowmo,    ///< Slow momentum: SlowMo, Wang et al. 2020 (ICLR), algorithm 1.
  adam,      ///< Adam without bias correction: FedAdam, Reddi et al. 2021 (ICLR), algorithm 2.
};

/// What an outer optimizer remembers between exchanges. All tensors are float32 [m]; all members have the same values.
struct outer_state {
  at::Tensor anchor;  ///< a: the parameters of all workers after the last exchange; at first, the initial ones.
  at::Tensor first;   ///< u: momentum, or Adam's first moment; at first 0.
  at::Tensor second;  ///< v: Adam's second moment; at first eps². Undefined for other rules.
};

/// An outer optimizer. The outer gradient is Δ = a − x̄, where x̄ is the mean of the workers' parameters.
struct outer_optimizer {
  outer_rule rule{outer_rule::none};
  double lr{1};        ///< η.
  double momentum{0};  ///< μ; β of SlowMo.
  double beta1{0.9};   ///< Adam's β₁.
  double beta2{0.99};  ///< Adam's β₂.
  double eps{1e-3};    ///< Adam's τ.

  /// Returns a state for parameters `initial`, float32 [m], of which it keeps a copy.
  outer_state begin(const at::Tensor& initial) const;

  /// Takes a step: `state.anchor` becomes what all workers continue with. `mean`: x̄, float32 [m]. `rate_ratio`: for
  /// SlowMo, the inner learning rate of the step just completed, divided by that at the last exchange, or 1 at the
  /// first.
  ///
  ///   momentum   u ← μu + Δ; a ← x̄ + (1 − η)Δ − ημu′, where u′ is u before this step
  ///   nesterov   u ← μu + Δ; a ← x̄ + (1 − η)Δ − ημu
  ///   slowmo     as momentum, with u · rate_ratio in place of u, so that u is in units of the current rate
  ///   adam       m ← β₁m − (1 − β₁)Δ; v ← β₂v + (1 − β₂)Δ²; a ← a + ηm / (√v + τ)
  ///
  /// The first two are PyTorch's SGD on Δ, written so that η = 1 and μ = 0 give x̄, bit for bit.
  void step(outer_state& state, const at::Tensor& mean, double rate_ratio = 1) const;
};

}  // namespace troupe
