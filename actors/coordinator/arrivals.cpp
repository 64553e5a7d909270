#include "troupe/actors/coordinator/arrivals.hpp"

#include "troupe/actors/wire/actor_id.hpp"
#include "troupe/algorithms/messages/message_state.hpp"

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>

namespace troupe::rules {

namespace {

std::string worker_named(rank_id rank) {
  return label_of_worker(static_cast<std::uint32_t>(rank)).name;
}

[[noreturn]] void refuse_repetition(const milestone& reached) {
  throw std::logic_error(worker_named(reached.rank) + " reported step " + std::to_string(reached.step) + " twice");
}

const replicas_by_rank& at_or_none(const std::map<std::uint64_t, replicas_by_rank>& all, std::uint64_t step) {
  static const replicas_by_rank none;
  const auto found = all.find(step);
  return found == all.end() ? none : found->second;
}

std::vector<snapshot> all_of(const std::map<std::uint64_t, replicas_by_rank>& by_step) {
  std::vector<snapshot> all;
  for (const auto& [step, by_rank] : by_step)
    for (const auto& [rank, replica] : by_rank) all.push_back(replica);
  return all;
}

}  // namespace

void arrivals::take(const milestone& reached) {
  auto& last = reached_.at(static_cast<std::size_t>(reached.rank));
  if (!milestones_[reached.step].emplace(reached.rank, reached).second || last > reached.step)
    refuse_repetition(reached);
  last = reached.step;
}

void arrivals::take_of_queue(const milestone& reached) {
  auto& last = reached_.at(static_cast<std::size_t>(reached.rank));
  if (reached.step > 0 && last >= reached.step) refuse_repetition(reached);
  last = reached.step;
  queued_.push_back(reached);
}

void arrivals::take(const snapshot& replica) {
  const auto step = replica.origin.step;
  if (replica.taken != snapshot_time::after_step) {
    auto& aside = replica.taken == snapshot_time::before_mixing ? before_mixing_ : after_mixing_;
    aside[step].emplace(replica.origin.sender, replica);
    return;
  }
  if (!shown_[step].emplace(replica.origin.sender, replica).second)
    throw std::logic_error(worker_named(replica.origin.sender) + " sent its parameters for step " +
                           std::to_string(step) + " twice");
}

std::optional<std::vector<milestone>> arrivals::complete(std::uint64_t step) {
  const auto at_step = milestones_.find(step);
  if (at_step == milestones_.end() || at_step->second.size() < reached_.size()) return std::nullopt;
  std::vector<milestone> milestones;
  for (const auto& [rank, reached] : at_step->second) milestones.push_back(reached);
  milestones_.erase(at_step);
  return milestones;
}

std::vector<milestone> arrivals::take_queued() {
  return std::exchange(queued_, {});
}

std::vector<milestone> arrivals::take_rest() {
  auto rest = take_queued();
  for (const auto& [step, by_rank] : std::exchange(milestones_, {}))
    for (const auto& [rank, reached] : by_rank) rest.push_back(reached);
  return rest;
}

bool arrivals::all_have_reached(const std::vector<std::uint64_t>& ends) const {
  return std::equal(reached_.begin(), reached_.end(), ends.begin(), std::greater_equal<>{});
}

std::size_t arrivals::shown_count(std::uint64_t step) const {
  return at_or_none(shown_, step).size();
}

replicas_by_rank arrivals::shown(std::uint64_t step) const {
  return at_or_none(shown_, step);
}

replicas_by_rank arrivals::shown_at(const std::vector<std::uint64_t>& ends) const {
  replicas_by_rank replicas;
  for (const auto& [step, by_rank] : shown_)
    for (const auto& [rank, replica] : by_rank)
      if (step == ends.at(static_cast<std::size_t>(rank))) replicas.emplace(rank, replica);
  return replicas;
}

replicas_by_rank arrivals::before_mixing(std::uint64_t step) const {
  return at_or_none(before_mixing_, step);
}

replicas_by_rank arrivals::after_mixing(std::uint64_t step) const {
  return at_or_none(after_mixing_, step);
}

std::vector<rank_id> arrivals::withdraw(std::uint64_t step) {
  std::vector<rank_id> ranks;
  for (const auto& [rank, replica] : std::exchange(shown_[step], {})) ranks.push_back(rank);
  return ranks;
}

void arrivals::forget_before(std::uint64_t step) {
  shown_.erase(shown_.begin(), shown_.lower_bound(step));
  for (auto* aside : {&before_mixing_, &after_mixing_}) aside->erase(aside->begin(), aside->upper_bound(step));
}

state_dict arrivals::state() const {
  state_dict saved;
  saved.put_counts("reached", reached_);
  std::vector<milestone> milestones;
  for (const auto& [step, by_rank] : milestones_)
    for (const auto& [rank, reached] : by_rank) milestones.push_back(reached);
  put_list(saved, "milestones", milestones);
  put_list(saved, "queued", queued_);
  put_list(saved, "shown", all_of(shown_));
  put_list(saved, "before_mixing", all_of(before_mixing_));
  put_list(saved, "after_mixing", all_of(after_mixing_));
  return saved;
}

void arrivals::restore(const state_dict& from) {
  reached_ = from.counts("reached", reached_.size());
  milestones_.clear();
  for (const auto& reached : list_of<milestone>(from, "milestones"))
    milestones_[reached.step].emplace(reached.rank, reached);
  queued_ = list_of<milestone>(from, "queued");
  shown_.clear();
  before_mixing_.clear();
  after_mixing_.clear();
  for (const auto* name : {"shown", "before_mixing", "after_mixing"})
    if (from.has(name))  // older checkpoints lack the last two
      for (const auto& replica : list_of<snapshot>(from, name)) take(replica);
}

}  // namespace troupe::rules
