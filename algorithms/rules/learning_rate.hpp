// The learning rate over a run as a function of completed steps, on which optimizers, coordinator and plan must agree
// without communicating.
#pragma once

#include <cstdint>
#include <vector>

namespace troupe {

/// Factor of the learning rate over a run: a warm-up, then a decay.
struct learning_rate {
  /// How the factor falls after the warm-up.
  enum class decay : std::uint8_t { none, step, cosine, polynomial };

  /// Steps of linear warm-up from warmup_start to 1 (Goyal et al. 2017, section 2.2).
  std::uint64_t warmup_steps{0};
  double warmup_start{1};                 ///< Factor of the first step of the warm-up.
  decay how{decay::none};                 ///< How the factor falls after the warm-up.
  std::vector<std::uint64_t> decay_at{};  ///< Steps at which `step` multiplies by decay_factor, ascending.
  double decay_factor{0.1};               ///< Factor by which `step` multiplies at each of decay_at.
  double power{1};                        ///< Exponent of `polynomial`.
  double minimum{0};                      ///< Factor at the end of `cosine` and `polynomial`.
  std::uint64_t hold{1};  ///< Interval at which the factor changes, in steps: 1, or the steps of an epoch.
  /// Steps of the whole run; `cosine` and `polynomial` fall from 1 after the warm-up to minimum at the end.
  std::uint64_t steps{0};

  /// Returns the factor applied to the learning rate of the step after `completed` ones: PyTorch's LinearLR, then
  /// MultiStepLR, CosineAnnealingLR or PolynomialLR, each stepped every `hold` steps, in closed form.
  double at(std::uint64_t completed) const;

  /// Returns whether the factor is always 1.
  bool constant() const { return warmup_steps == 0 && how == decay::none; }
};

}  // namespace troupe
