#include "troupe/algorithms/rules/learning_rate.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace troupe {

void rate_changes::set(const change& now) {
  const std::lock_guard lock{mutex_};
  std::erase_if(changes_, [&](const change& other) { return other.from >= now.from; });
  changes_.push_back(now);
  any_ = true;
}

double rate_changes::at(std::uint64_t completed, double lr) const {
  if (!any_) return lr;
  const std::lock_guard lock{mutex_};
  for (const auto& change : changes_)
    if (change.from <= completed) lr = change.lr;
  return lr;
}

std::vector<rate_changes::change> rate_changes::all() const {
  const std::lock_guard lock{mutex_};
  return changes_;
}

void rate_changes::clear() {
  const std::lock_guard lock{mutex_};
  changes_.clear();
  any_ = false;
}

double learning_rate::at(std::uint64_t completed) const {
  completed -= completed % std::max<std::uint64_t>(hold, 1);
  if (completed < warmup_steps)
    return warmup_start + (1 - warmup_start) * static_cast<double>(completed) / static_cast<double>(warmup_steps);
  if (how == decay::step) {
    const auto passed = std::upper_bound(decay_at.begin(), decay_at.end(), completed) - decay_at.begin();
    return std::pow(decay_factor, static_cast<double>(passed));
  }
  if (how == decay::none || steps <= warmup_steps) return 1;
  const auto done = static_cast<double>(std::min(completed, steps) - warmup_steps);
  const auto total = static_cast<double>(steps - warmup_steps);
  const auto left =
      how == decay::cosine ? 0.5 * (1 + std::cos(std::numbers::pi * done / total)) : std::pow(1 - done / total, power);
  return minimum + (1 - minimum) * left;
}

}  // namespace troupe
