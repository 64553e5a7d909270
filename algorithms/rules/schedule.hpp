// When events are due, in completed steps: workers and the coordinator must agree on this without communicating.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

namespace troupe {

/// When events of a run are due.
struct schedule {
  std::uint64_t steps{0};             ///< Number of steps of the whole run.
  std::uint64_t steps_per_epoch{1};   ///< Steps of an epoch.
  std::uint64_t evaluate_every{1};    ///< Interval between evaluations, in steps.
  std::uint64_t checkpoint_every{0};  ///< Interval between checkpoints, in steps; 0 for none.
  std::uint64_t verify_every{0};      ///< Interval at which equal replicas are compared, in steps; 0 for never.
  /// The last step after which replicas are equal.
  std::uint64_t verify_until{std::numeric_limits<std::uint64_t>::max()};

  /// Returns whether an epoch ends after `step` completed steps.
  bool epoch_ends_at(std::uint64_t step) const { return step > 0 && step % steps_per_epoch == 0; }
  /// Returns whether the result after `step` completed steps is evaluated.
  bool evaluated_at(std::uint64_t step) const { return step == steps || (step > 0 && step % evaluate_every == 0); }
  /// Returns whether workers report after `step` completed steps.
  bool milestone_at(std::uint64_t step) const { return epoch_ends_at(step) || evaluated_at(step); }

  /// Returns whether equal replicas are compared after `step` completed steps.
  bool verified_at(std::uint64_t step) const {
    return verify_every > 0 && step > 0 && step % verify_every == 0 && step <= verify_until;
  }

  /// Returns whether all workers stop after `step` for a checkpoint. There is none after the last step.
  bool checkpoint_at(std::uint64_t step) const {
    return checkpoint_every > 0 && step > 0 && step < steps && step % checkpoint_every == 0;
  }

  /// Returns the first checkpoint after `step`; the largest number if there is none.
  std::uint64_t next_checkpoint(std::uint64_t step) const {
    constexpr auto never = std::numeric_limits<std::uint64_t>::max();
    if (checkpoint_every == 0) return never;
    const auto next = next_multiple(step, checkpoint_every);
    return next < steps ? next : never;
  }

  /// Returns the first milestone after `step`, or the last step if there is none before it.
  std::uint64_t next_milestone(std::uint64_t step) const {
    return std::min({steps, next_multiple(step, steps_per_epoch), next_multiple(step, evaluate_every)});
  }

  /// Returns the first evaluated step after `step`, or the last step if there is none before it.
  std::uint64_t next_evaluation(std::uint64_t step) const {
    return std::min(steps, next_multiple(step, evaluate_every));
  }

 private:
  static std::uint64_t next_multiple(std::uint64_t step, std::uint64_t of) { return (step / of + 1) * of; }
};

/// Counts forward passes: a step has one per micro-batch; the last step of an epoch may have fewer.
struct pass_count {
  std::uint64_t of_step{1};          ///< Passes of a step.
  std::uint64_t of_last{1};          ///< Passes of the last step of an epoch; at most of_step.
  std::uint64_t steps_per_epoch{1};  ///< Steps of an epoch.

  /// Returns the number of passes of an epoch.
  std::uint64_t of_epoch() const { return (steps_per_epoch - 1) * of_step + of_last; }

  /// Returns the number of passes of the first `steps` steps.
  std::uint64_t before(std::uint64_t steps) const {
    return steps / steps_per_epoch * of_epoch() + steps % steps_per_epoch * of_step;
  }

  /// Returns the step to which a pass belongs, both counted from 0.
  std::uint64_t step_of(std::uint64_t pass) const {
    return pass / of_epoch() * steps_per_epoch + pass % of_epoch() / of_step;
  }
};

/// When an exchange is due, in the completed steps stamped on its contributions. An exchange after the loop's `apply`
/// has a stamp one higher than an exchange before it.
struct cadence {
  /// A stamp that no run reaches, to which any number of steps can be added.
  static constexpr std::uint64_t never = std::uint64_t{1} << 62;

  std::uint64_t every{1};     ///< Interval, in steps.
  std::uint64_t first{0};     ///< First stamp at which the exchange is due; see make_cadence().
  std::uint64_t lead{0};      ///< 1 if the stamp already counts the current step, otherwise 0.
  std::uint64_t last{never};  ///< Last stamp at which it can be due.
  /// All stamps at which it is due, ascending, if its intervals differ; then `every` is the shortest. Otherwise null.
  std::shared_ptr<const std::vector<std::uint64_t>> stamps{};

  /// Returns whether the exchange is due in every step of the run.
  bool is_always() const { return always_until() == never; }

  /// Returns until which step, counted from 1, the exchange is due in every step; `never` if to the end.
  std::uint64_t always_until() const {
    if (stamps || every > 1 || first > lead) return 0;
    return last == never ? never : last + 1 - lead;
  }

  /// Returns how many steps end before the first interval begins at whose end the exchange is due.
  std::uint64_t begins_after() const {
    const auto first_due = stamps ? next_due(0) : first;
    return first_due - std::min(first_due, every == 1 ? lead : every);
  }

  /// Returns the last step, counted from 1, in which the exchange can be due; `never` if there is none.
  std::uint64_t ends_after() const {
    if (stamps) return stamps->empty() ? 0 : stamps->back() + 1 - lead;
    return last == never ? never : last + 1 - lead;
  }

  /// Returns how many exchanges were due before the one with this stamp.
  std::uint64_t index_of(std::uint64_t step) const {
    if (stamps) return static_cast<std::uint64_t>(at_or_after(step) - stamps->begin());
    return step < first ? 0 : (step - first) / every;
  }

  /// Returns whether the exchange is due at this stamp.
  bool due(std::uint64_t step) const { return step < never && next_due(step) == step; }

  /// Returns the first stamp from `step` on at which the exchange is due, or `never`.
  std::uint64_t next_due(std::uint64_t step) const {
    if (stamps) {
      const auto next = at_or_after(step);
      return next == stamps->end() ? never : *next;
    }
    const auto next = step <= first ? first : first + (step - first + every - 1) / every * every;
    return next <= last ? next : never;
  }

  /// Returns the longest interval between two exchanges that follow each other.
  std::uint64_t longest_interval() const {
    auto longest = every;
    if (stamps)
      for (std::size_t i = 1; i < stamps->size(); ++i) longest = std::max(longest, (*stamps)[i] - (*stamps)[i - 1]);
    return longest;
  }

  /// Returns how often the exchange is due per step, on average over a run of so many steps.
  double per_step(std::uint64_t steps) const {
    if (!stamps && last == never && first <= every + lead) return 1 / static_cast<double>(every);  // from start to end
    if (steps == 0) return 0;
    const auto end = std::min(last + 1, steps + lead);
    const auto times = stamps        ? static_cast<double>(index_of(end))
                       : first < end ? static_cast<double>(end - first) / static_cast<double>(every)
                                     : 0;
    return times / static_cast<double>(steps);
  }

 private:
  std::vector<std::uint64_t>::const_iterator at_or_after(std::uint64_t step) const {
    return std::lower_bound(stamps->begin(), stamps->end(), step);
  }
};

/// Makes a cadence. An exchange at every step is due from the first stamp on. A less frequent one is first due at
/// `every`, not at 0, unless `from_start` is set. After `apply` the first stamp is 1, so `from_start` has no effect
/// there. Nothing is due in the first `from` steps, from which on the interval counts, or after `until` steps.
inline cadence make_cadence(std::uint64_t every, bool behind_apply, bool from_start = false, std::uint64_t from = 0,
                            std::uint64_t until = cadence::never) {
  const std::uint64_t lead = behind_apply ? 1 : 0;
  const bool at_once = every == 1 || (from_start && !behind_apply);
  return {.every = every,
          .first = from + (at_once ? lead : every),
          .lead = lead,
          .last = until >= cadence::never ? cadence::never : until - 1 + lead};
}

}  // namespace troupe
