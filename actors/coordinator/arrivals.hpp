// Milestones and snapshots of steps whose report has not been written. They may arrive in any order, and from some
// workers long before the others.
#pragma once

#include "troupe/actors/coordinator/result.hpp"
#include "troupe/algorithms/messages/messages.hpp"
#include "troupe/algorithms/messages/state_dict.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace troupe::rules {

class arrivals {
 public:
  explicit arrivals(std::uint32_t workers = 1) : reached_(workers) {}

  /// Takes a milestone of a worker that has batches of its own. Throws std::logic_error if it has already reported that
  /// step or a later one.
  void take(const milestone& reached);

  /// Takes a milestone of a worker that draws from a queue. Throws like take().
  void take_of_queue(const milestone& reached);

  /// Takes a snapshot for the step in its origin. Throws std::logic_error if the worker has already sent it.
  void take(const snapshot& replica);

  /// Returns the milestones of `step` by rank and forgets them if all workers have reported it; otherwise returns
  /// nothing.
  std::optional<std::vector<milestone>> complete(std::uint64_t step);

  /// Returns the milestones from a queue since the last call.
  std::vector<milestone> take_queued();

  /// Returns all milestones that belong to no complete step, and forgets them.
  std::vector<milestone> take_rest();

  /// Returns whether every worker has reported at least its step in `ends`, which is indexed by rank.
  bool all_have_reached(const std::vector<std::uint64_t>& ends) const;

  /// Returns the number of replicas that have been shown for `step`, and these replicas.
  std::size_t shown_count(std::uint64_t step) const;
  replicas_by_rank shown(std::uint64_t step) const;

  /// Returns, by rank, the replicas that have arrived for the step of their worker in `ends`.
  replicas_by_rank shown_at(const std::vector<std::uint64_t>& ends) const;

  /// Return the parameters of the workers before and after their last exchange before the end of `step`, as far as they
  /// have arrived.
  replicas_by_rank before_mixing(std::uint64_t step) const;
  replicas_by_rank after_mixing(std::uint64_t step) const;

  /// Forgets the replicas shown for `step` and returns their ranks, so that they can be requested again.
  std::vector<rank_id> withdraw(std::uint64_t step);

  /// Forgets the snapshots that are not needed once the report of `step` is written. Those shown for `step` itself
  /// stay, because they may still be requested.
  void forget_before(std::uint64_t step);

  /// Return and restore everything that has arrived. restore() throws state_error if the number of workers differs.
  state_dict state() const;
  void restore(const state_dict& from);

 private:
  std::vector<std::uint64_t> reached_;                                ///< By rank: step of the last milestone.
  std::map<std::uint64_t, std::map<rank_id, milestone>> milestones_;  ///< By step, then rank.
  std::vector<milestone> queued_;                                     ///< Milestones of workers that draw from a queue.
  std::map<std::uint64_t, replicas_by_rank> shown_, before_mixing_, after_mixing_;  ///< By step.
};

}  // namespace troupe::rules
