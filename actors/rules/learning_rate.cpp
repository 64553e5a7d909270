#include "troupe/actors/rules/learning_rate.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace troupe {

double learning_rate::at(std::uint64_t completed) const {
  if (completed < warmup_steps)
    return warmup_start + (1 - warmup_start) * static_cast<double>(completed) / static_cast<double>(warmup_steps);
  if (how == decay::step) {
    const auto passed = std::upper_bound(decay_at.begin(), decay_at.end(), completed) - decay_at.begin();
    return std::pow(decay_factor, static_cast<double>(passed));
  }
  if (how == decay::cosine && steps > warmup_steps) {
    const auto done = static_cast<double>(std::min(completed, steps) - warmup_steps);
    return 0.5 * (1 + std::cos(std::numbers::pi * done / static_cast<double>(steps - warmup_steps)));
  }
  return 1;
}

}  // namespace troupe
