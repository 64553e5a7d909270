#include "troupe/tools/watching/history.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace troupe::watching {

namespace {

/// Drops every second element except the last one.
template <class Element>
void thin_out(std::vector<Element>& all) {
  std::vector<Element> kept;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (i % 2 == 0 || i + 1 == all.size()) kept.push_back(std::move(all[i]));
  all = std::move(kept);
}

}  // namespace

std::string history_state::status() const {
  if (!latest) return "waiting";
  return has_ended() ? latest->status : "training";
}

std::optional<double> history_state::steps_per_second() const {
  constexpr double span = 5;
  if (progress.size() < 2) return {};
  const auto& last = progress.back();
  auto first = progress.rbegin() + 1;
  while (first + 1 != progress.rend() && last.seconds - first->seconds < span) ++first;
  const auto seconds = last.seconds - first->seconds;
  return seconds > 0 ? std::optional{(last.steps - first->steps) / seconds} : std::nullopt;
}

std::optional<double> history_state::last(std::optional<double> record::*field) const {
  if (latest)
    if (const auto& value = (*latest).*field; value && std::isfinite(*value)) return value;
  for (auto line = lines.rbegin(); line != lines.rend(); ++line)
    if (const auto& value = (*line).*field; value && std::isfinite(*value)) return value;
  return {};
}

void history::write(const record& line) {
  const std::lock_guard lock(mutex_);
  ++version_;
  if (!state_.latest || line.event == "resume") {
    begun_ = now_();
    seconds_before_ = line.seconds;
  }
  if (!line.workers.empty()) state_.workers = line.workers;
  if (!line.staleness_counts.empty()) state_.staleness = line.staleness_counts;
  state_.steps = std::max(state_.steps, line.step);
  state_.latest = line;
  auto& lines = state_.lines;
  if (line.event == "epoch" && !lines.empty() && lines.back().step == line.step) {
    const auto evaluated = std::exchange(lines.back(), line);
    if (!lines.back().val_accuracy) lines.back().val_accuracy = evaluated.val_accuracy;
    if (!lines.back().val_loss) lines.back().val_loss = evaluated.val_loss;
  } else if (line.event == "epoch" || line.event == "evaluation") {
    lines.push_back(line);
  } else {
    return;
  }
  lines.back().workers.clear();  // state_ has them
  lines.back().staleness_counts.clear();
  if (lines.size() > lines_max) thin_out(lines);
}

void history::progress(std::uint64_t step) {
  const std::lock_guard lock(mutex_);
  state_.steps = std::max(state_.steps, step);
  ++version_;
  if (!keeps_progress_ || !state_.latest) return;
  add_point();
  add_traffic();
}

void history::progress_by_worker(const std::vector<std::uint64_t>& steps) {
  const std::lock_guard lock(mutex_);
  state_.steps_by_worker = steps;
}

void history::add_point() {
  const auto now = now_();
  auto& points = state_.progress;
  if (!points.empty() && now - last_point_ < between_points_) return;
  last_point_ = now;
  const auto& by_worker = state_.steps_by_worker;
  const auto sum = std::accumulate(by_worker.begin(), by_worker.end(), 0.0);
  points.push_back(
      {.seconds = seconds_now(),
       .steps = by_worker.empty() ? static_cast<double>(state_.steps) : sum / static_cast<double>(by_worker.size())});
  if (points.size() <= points_max) return;
  thin_out(points);
  between_points_ *= 2;
}

double history::seconds_now() const {
  const std::chrono::duration<double> elapsed = now_() - begun_;
  return seconds_before_ + elapsed.count();
}

void history::add_traffic() {
  constexpr double between = 0.5, span = 5;
  const auto now = seconds_now();
  if (!meter_ || (!traffic_.empty() && now - traffic_.back().seconds < between)) return;
  traffic_.emplace_back().seconds = now;
  meter_(traffic_.back());
  while (traffic_.size() > 1 && now - traffic_[1].seconds > span) traffic_.pop_front();
}

std::uint64_t history::version() const {
  const std::lock_guard lock(mutex_);
  return version_;
}

history_state history::state() const {
  const std::lock_guard lock(mutex_);
  auto state = state_;
  if (!meter_ || !state.latest) return state;
  meter_(state.traffic);
  const bool at_present = keeps_progress_ && !state.has_ended();
  state.traffic.seconds = at_present ? seconds_now() : state.latest->seconds;
  if (at_present && !traffic_.empty())
    state.traffic_before = traffic_.front();
  else
    state.traffic_before.seconds = seconds_before_;
  return state;
}

}  // namespace troupe::watching
