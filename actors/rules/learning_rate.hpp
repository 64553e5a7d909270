// The learning rate over a run, as a function of completed steps: what optimizers, coordinator and plan must agree on
// without asking.
#pragma once

#include <cstdint>
#include <vector>

namespace troupe {

struct learning_rate {
  enum class decay : std::uint8_t { none, step, cosine, polynomial };

  std::uint64_t warmup_steps{0};  ///< Linear from warmup_start to 1 (Goyal et al. 2017, section 2.2).
  double warmup_start{1};
  decay how{decay::none};
  std::vector<std::uint64_t> decay_at{};  ///< Of `step`, ascending, in steps: from each on the factor below once more.
  double decay_factor{0.1};
  double power{1};        ///< Of `polynomial`.
  double minimum{0};      ///< Factor at the end of `cosine` and `polynomial`.
  std::uint64_t hold{1};  ///< The factor changes every so many steps only: 1, or the steps of an epoch.
  std::uint64_t steps{
      0};  ///< Of the whole run: `cosine` and `polynomial` go from 1 after the warm-up to minimum there.

  /// Returns what the learning rate of the step after `completed` ones is multiplied by: PyTorch's LinearLR, then
  /// MultiStepLR, CosineAnnealingLR or PolynomialLR, each stepped every `hold` steps, in closed form.
  double at(std::uint64_t completed) const;

  /// Whether it is always 1.
  bool constant() const { return warmup_steps == 0 && how == decay::none; }
};

}  // namespace troupe
