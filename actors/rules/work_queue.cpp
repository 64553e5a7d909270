#include "troupe/actors/rules/work_queue.hpp"

#include "troupe/actors/support/assert.hpp"

#include <algorithm>

namespace troupe::rules {

namespace {

constexpr std::size_t most_open = 2;  ///< Assignments of one worker.

}  // namespace

work_queue::work_queue(std::uint32_t workers, const schedule& when, std::uint32_t most, std::uint32_t block)
    : when_(when), most_(most), block_(block), handed_(workers) {}

std::vector<std::pair<rank_id, assignment>> work_queue::hand_out(std::uint64_t until) {
  const auto end = std::min(until, when_.steps) * handed_.size();
  std::vector<std::pair<rank_id, assignment>> made;
  for (std::size_t open = 0; open < most_open; ++open)  // the first for all, then the second
    for (std::uint32_t rank = 0; rank < handed_.size() && next_ < end; ++rank) {
      auto& its = handed_[rank];
      if (its.open.size() > open) continue;
      const auto count = size_of_next(end);
      made.emplace_back(rank_id{rank}, assignment{.first_step = its.steps, .first_batch = next_, .count = count});
      its.steps += count;
      its.open.push_back(its.steps);
      next_ += count;
    }
  return made;
}

/// Half of an equal share of what is left, over all assignments that may be open.
std::uint64_t work_queue::size_of_next(std::uint64_t end) const {
  const auto workers = static_cast<std::uint64_t>(handed_.size());
  const auto to_milestone = when_.next_milestone(next_ / workers) * workers - next_;
  const auto guided = std::max<std::uint64_t>(1, (end - next_) / (2 * most_open * workers));
  return std::min({most_, to_milestone, end - next_, (guided + block_ - 1) / block_ * block_});
}

void work_queue::note(rank_id worker, std::uint64_t steps) {
  auto& its = handed_.at(static_cast<std::size_t>(worker));
  TROUPE_ASSERT(steps >= its.completed && steps <= its.steps, "a worker completes the steps assigned to it, in order");
  completed_ += steps - its.completed;
  its.completed = steps;
  std::erase_if(its.open, [&](std::uint64_t end) { return end <= steps; });
}

}  // namespace troupe::rules
