// Hands out the batches of one queue to all workers, so that each makes as many steps as its speed allows: guided
// self-scheduling (Polychronopoulos, Kuck 1987, "Guided Self-Scheduling: A Practical Scheduling Scheme for Parallel
// Supercomputers", IEEE Transactions on Computers C-36). Assignments become shorter towards the end of the batches
// that may be started, so that the workers finish at about the same time.
#pragma once

#include "troupe/algorithms/messages/messages.hpp"
#include "troupe/algorithms/messages/state_dict.hpp"
#include "troupe/algorithms/rules/schedule.hpp"

#include <cstdint>
#include <utility>
#include <vector>

namespace troupe::rules {

/// Assigns the batches of one queue, and counts the steps completed. One thread at a time.
class work_queue {
 public:
  /// With n workers, the queue has n · when.steps batches. An assignment has at most `most` of them, and a multiple of
  /// `block` unless a milestone or the end is nearer.
  work_queue(std::uint32_t workers, const schedule& when, std::uint32_t most, std::uint32_t block = 1);

  /// Hands out batches that belong to the first `until` steps. A worker has at most two open assignments, so that it
  /// can continue without waiting. No assignment goes beyond a milestone.
  std::vector<std::pair<rank_id, assignment>> hand_out(std::uint64_t until);

  /// Notes that a worker has completed `steps` steps since the run began.
  void note(rank_id worker, std::uint64_t steps);

  /// Returns the steps completed by all workers together, divided by n and rounded down.
  std::uint64_t steps() const { return completed_ / handed_.size(); }

  /// Returns whether the workers have completed all batches of the first `steps` steps, and no others are assigned.
  bool is_idle_at(std::uint64_t steps) const;

  /// Returns the smallest number of steps whose batches include all that are assigned.
  std::uint64_t steps_assigned() const;

  /// Returns the number of steps that a worker has been assigned since the run began.
  std::uint64_t steps_assigned_to(rank_id worker) const;

  /// Return and restore all assignments. restore() throws state_error if the number of workers differs.
  state_dict state() const;
  void restore(const state_dict& from);

 private:
  /// The assignments of one worker.
  struct account {
    std::uint64_t steps{0}, completed{0};  ///< Numbers of steps assigned and completed.
    std::vector<std::uint64_t> open{};     ///< Last steps of its open assignments.
  };

  std::uint64_t size_of_next(std::uint64_t end) const;

  schedule when_;
  std::uint64_t most_, block_;
  std::vector<account> handed_;  ///< By rank.
  std::uint64_t next_{0};        ///< The first batch that has not been handed out.
  std::uint64_t completed_{0};
};

}  // namespace troupe::rules
