#include "troupe/algorithms/rules/loop.hpp"

#include <algorithm>

namespace troupe::rules {

bool report_times::is_milestone(std::uint64_t completed) const {
  if (completed == last) return true;
  if (!draws_from_queue) return when.milestone_at(completed);
  return !assigned.empty() && assigned.front().end() == completed;
}

std::uint64_t report_times::next_milestone(std::uint64_t completed) const {
  if (!draws_from_queue) return when.next_milestone(completed);
  return assigned.empty() ? completed : assigned.front().end();
}

const exchange_word* due_exchange(const loop_word& word, std::uint64_t stamp) {
  const auto* exchange = std::get_if<exchange_word>(&word);
  return exchange && exchange->when.due(stamp) ? exchange : nullptr;
}

std::size_t concurrent_exchange(const std::vector<loop_word>& loop, std::size_t word, std::uint64_t stamp) {
  if (const auto* local = std::get_if<verb>(&loop[word]); !local || *local != verb::gradient) return loop.size();
  for (++word; word < loop.size() && !std::holds_alternative<verb>(loop[word]); ++word)
    if (const auto* exchange = due_exchange(loop[word], stamp))
      return exchange->sends == slot::parameters && !exchange->gradient_first ? word : loop.size();
  return loop.size();
}

std::uint64_t next_exchange(const std::vector<loop_word>& loop, std::uint64_t completed) {
  auto next = ~std::uint64_t{0};
  for (const auto& word : loop)
    if (const auto* exchange = std::get_if<exchange_word>(&word))
      next = std::min(next, exchange->when.next_due(completed + exchange->when.lead) - exchange->when.lead);
  return next;
}

std::optional<local_work> whole_steps(const std::vector<loop_word>& loop, const loop_position& at,
                                      const loop_limits& limits, const report_times& reports) {
  if (at.word != 0) return std::nullopt;
  const auto until =
      std::min({limits.granted, reports.next_milestone(at.completed), next_exchange(loop, at.completed)});
  if (until <= at.completed) return std::nullopt;
  local_work work;
  for (const auto& word : loop)
    if (const auto* local = std::get_if<verb>(&word)) work.verbs.push_back(*local);
  work.steps = std::min<std::uint64_t>(until - at.completed, limits.steps_at_once);
  work.begins = work.steps - 1;
  work.times = static_cast<std::uint32_t>(work.steps);
  return work;
}

local_work next_work(const std::vector<loop_word>& loop, const loop_position& at, const loop_limits& limits,
                     const report_times& reports) {
  if (auto whole = whole_steps(loop, at, limits, reports)) return std::move(*whole);
  local_work work{.word_after = at.word};
  auto stamp = at.stamp;
  for (;;) {
    const auto& word = loop[work.word_after];
    if (due_exchange(word, stamp)) return work;
    if (const auto* local = std::get_if<verb>(&word)) {
      const auto is_first = work.verbs.empty();  // an exchange concurrent with the first verb is under way already
      if (!is_first && concurrent_exchange(loop, work.word_after, stamp) < loop.size()) return work;
      work.verbs.push_back(*local);
      if (*local == verb::apply) stamp += 1;
    }
    if (work.word_after == 0 && work.steps > 0) work.begins += 1;
    work.word_after = (work.word_after + 1) % loop.size();
    if (work.word_after != 0) continue;
    work.steps += 1;
    const auto completed = at.completed + work.steps;
    if (completed >= limits.granted || reports.is_milestone(completed) || reports.when.verified_at(completed))
      return work;
    if (next_exchange(loop, completed) > completed) return work;  // whole_steps() covers what follows
  }
}

bucket_destination gradient_destination(const std::vector<loop_word>& loop, const local_work& work) {
  if (work.verbs.empty() || work.verbs.back() != verb::gradient) return {};
  const auto* exchange = std::get_if<exchange_word>(&loop[work.word_after]);
  if (!exchange || exchange->sends != slot::gradient || !exchange->buckets) return {};
  return {exchange->place, exchange->buckets, exchange->on_device};
}

host_needs needs_after(const std::vector<loop_word>& loop, const local_work& work, std::uint64_t stamp,
                       bool leaves_in_buckets) {
  for (const auto verb : work.verbs) stamp += verb == verb::apply ? work.times : 0;
  const auto after = work.word_after;
  const auto leaving =
      std::holds_alternative<exchange_word>(loop[after]) ? after : concurrent_exchange(loop, after, stamp);
  const auto* exchange = leaving < loop.size() ? due_exchange(loop[leaving], stamp) : nullptr;
  const auto sends = [&](slot kind) { return exchange && !exchange->on_device && exchange->sends == kind; };
  return {.parameters = sends(slot::parameters), .gradient = sends(slot::gradient) && !leaves_in_buckets};
}

}  // namespace troupe::rules
