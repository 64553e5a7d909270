#include "troupe/runtime/simulation/fault_times.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

fault_times::fault_times(const plan& plan, const std::vector<node_fault>& faults)
    : completed_(plan.workers), queued_(plan.draws_from_queue()) {
  for (const auto& fault : faults)
    waiting_.push_back({.what = fault, .behind = fault.at_step.value_or(0) > 0 ? plan.workers : std::size_t{0}});
}

void fault_times::note_step(std::uint32_t rank, std::uint64_t completed) {
  const auto before = std::exchange(completed_.at(rank), completed);
  total_ += completed - before;
  for (auto& fault : waiting_)
    if (const auto step = fault.what.at_step; step && before < *step && completed >= *step) fault.behind -= 1;
}

bool fault_times::is_due(const waiting_fault& fault, std::uint64_t messages, time now) const {
  const auto& trigger = fault.what;
  if (!trigger.at_step && !trigger.at_time) return trigger.before <= messages;
  if (!began_) return false;
  if (trigger.at_time) return now >= *began_ + *trigger.at_time;
  return queued_ ? total_ >= *trigger.at_step * completed_.size() : fault.behind == 0;
}

std::vector<node_fault> fault_times::take_due(std::uint64_t messages, time now) {
  std::vector<node_fault> due;
  for (auto fault = waiting_.begin(); fault != waiting_.end();) {
    if (!is_due(*fault, messages, now)) {
      ++fault;
      continue;
    }
    due.push_back(fault->what);
    fault = waiting_.erase(fault);
  }
  return due;
}

std::vector<node_fault> fault_times::waiting() const {
  std::vector<node_fault> all;
  for (const auto& [fault, behind] : waiting_) all.push_back(fault);
  return all;
}

std::optional<fault_times::time> fault_times::next_due() const {
  std::optional<time> next;
  if (!began_) return next;
  for (const auto& [fault, behind] : waiting_)
    if (fault.at_time) next = std::min(next.value_or(time::max()), time{*began_ + *fault.at_time});
  return next;
}

}  // namespace troupe
