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

/// Counts forward passes: a step makes one for each micro-batch, the last step of an epoch perhaps fewer.
struct pass_count {
  std::uint64_t of_step{1};
  std::uint64_t of_last{1};  ///< Of the last step of an epoch; at most of_step.
  std::uint64_t steps_per_epoch{1};

  std::uint64_t of_epoch() const { return (steps_per_epoch - 1) * of_step + of_last; }

  /// Returns how many passes the first `steps` steps make.
  std::uint64_t before(std::uint64_t steps) const {
    return steps / steps_per_epoch * of_epoch() + steps % steps_per_epoch * of_step;
  }

  /// Returns the step that a pass belongs to, both counted from 0.
  std::uint64_t step_of(std::uint64_t pass) const {
    return pass / of_epoch() * steps_per_epoch + pass % of_epoch() / of_step;
  }
};

/// When an exchange is due, in the completed steps that its contributions are stamped with. An exchange that stands
/// behind the loop's `apply` sees one step more than one before it.
struct cadence {
  std::uint64_t every{1};
  std::uint64_t first{0};  ///< First stamp at which it is due; see make_cadence().
  std::uint64_t lead{0};   ///< 1 where the stamp counts the step under way already, else 0.

  bool due(std::uint64_t step) const { return step >= first && (step - first) % every == 0; }

  /// The first stamp from `step` on at which it is due.
  std::uint64_t next_due(std::uint64_t step) const {
    return step <= first ? first : first + (step - first + every - 1) / every * every;
  }
};

/// An exchange of every single step is due from the first stamp on. A rarer one is first due at `every`, not at 0,
/// unless `from_start` is set. After `apply` the first stamp is 1, so `from_start` has no effect there.
inline cadence make_cadence(std::uint64_t every, bool behind_apply, bool from_start = false) {
  const std::uint64_t lead = behind_apply ? 1 : 0;
  const bool at_once = every == 1 || (from_start && !behind_apply);
  return {.every = every, .first = at_once ? lead : every, .lead = lead};
}

}  // namespace troupe
