#include "troupe/actors/coordinator/work_queue.hpp"

#include "troupe/algorithms/support/assert.hpp"

#include <algorithm>
#include <string>

namespace troupe::rules {

namespace {

constexpr std::size_t most_open = 2;  ///< Maximum number of open assignments of a worker.

}  // namespace

work_queue::work_queue(std::uint32_t workers, const schedule& when, std::uint32_t most, std::uint32_t block)
    : when_(when), most_(most), block_(block), handed_(workers) {}

std::vector<std::pair<rank_id, assignment>> work_queue::hand_out(std::uint64_t until) {
  const auto end = std::min(until, when_.steps) * handed_.size();
  std::vector<std::pair<rank_id, assignment>> assignments;
  for (std::size_t open = 0; open < most_open; ++open)  // a first one for every worker, then a second one
    for (std::uint32_t rank = 0; rank < handed_.size() && next_ < end; ++rank) {
      auto& its = handed_[rank];
      if (its.open.size() > open) continue;
      const auto count = size_of_next(end);
      assignments.emplace_back(rank_id{rank},
                               assignment{.first_step = its.steps, .first_batch = next_, .count = count});
      its.steps += count;
      its.open.push_back(its.steps);
      next_ += count;
    }
  return assignments;
}

/// Returns half of an equal share of the remaining batches among all assignments that may be open, rounded up to whole
/// blocks, but at most `most_` and not beyond the next milestone or `end`.
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

bool work_queue::is_idle_at(std::uint64_t steps) const {
  return completed_ == steps * handed_.size() && next_ == completed_;
}

std::uint64_t work_queue::steps_assigned() const {
  return (next_ + handed_.size() - 1) / handed_.size();
}

std::uint64_t work_queue::steps_assigned_to(rank_id worker) const {
  return handed_.at(static_cast<std::size_t>(worker)).steps;
}

state_dict work_queue::state() const {
  state_dict saved;
  saved.put_counts("batches", {next_, completed_});
  std::vector<std::uint64_t> steps, completed;
  for (std::size_t rank = 0; rank < handed_.size(); ++rank) {
    steps.push_back(handed_[rank].steps);
    completed.push_back(handed_[rank].completed);
    saved.put_counts("open/" + std::to_string(rank), handed_[rank].open);
  }
  saved.put_counts("steps", steps);
  saved.put_counts("completed", completed);
  return saved;
}

void work_queue::restore(const state_dict& from) {
  const auto batches = from.counts("batches", 2);
  const auto steps = from.counts("steps", handed_.size()), completed = from.counts("completed", handed_.size());
  next_ = batches[0];
  completed_ = batches[1];
  for (std::size_t rank = 0; rank < handed_.size(); ++rank)
    handed_[rank] = {steps[rank], completed[rank], from.counts("open/" + std::to_string(rank))};
}

}  // namespace troupe::rules
