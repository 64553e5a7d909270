// When something is due, in completed steps: what workers and the coordinator must agree on without asking.
#pragma once

#include <algorithm>
#include <cstdint>

namespace troupe {

struct schedule {
  std::uint64_t steps{0};  ///< Of the whole run.
  std::uint64_t steps_per_epoch{1};
  std::uint64_t evaluate_every{1};  ///< In steps.

  bool epoch_ends_at(std::uint64_t step) const { return step > 0 && step % steps_per_epoch == 0; }
  bool evaluated_at(std::uint64_t step) const { return step == steps || (step > 0 && step % evaluate_every == 0); }
  bool milestone_at(std::uint64_t step) const { return epoch_ends_at(step) || evaluated_at(step); }

  /// The first milestone after `step`; the last step if there is none before it.
  std::uint64_t next_milestone(std::uint64_t step) const {
    return std::min({steps, next_multiple(step, steps_per_epoch), next_multiple(step, evaluate_every)});
  }

  /// The first step after `step` that is evaluated; the last step if there is none before it.
  std::uint64_t next_evaluation(std::uint64_t step) const {
    return std::min(steps, next_multiple(step, evaluate_every));
  }

 private:
  static std::uint64_t next_multiple(std::uint64_t step, std::uint64_t of) { return (step / of + 1) * of; }
};

}  // namespace troupe
