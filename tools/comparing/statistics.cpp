#include "troupe/tools/comparing/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <map>

namespace troupe::comparing {

namespace {

using values = std::vector<std::optional<double>>;

spread spread_of_sorted(const std::vector<double>& sorted) {
  const auto middle = sorted.size() / 2;
  const auto median = sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
  return {.median = median, .low = sorted.front(), .high = sorted.back(), .count = sorted.size()};
}

/// Returns one value of each run.
template <class Get>
values each(const std::vector<const run_result*>& runs, Get get) {
  values collected;
  for (const auto* run : runs) collected.push_back(get(*run));
  return collected;
}

/// Returns the points of all runs by step.
std::map<std::uint64_t, std::vector<const point*>> points_by_step(const std::vector<const run_result*>& runs) {
  std::map<std::uint64_t, std::vector<const point*>> steps;
  for (const auto* run : runs)
    for (const auto& at : run->points) steps[at.step].push_back(&at);
  return steps;
}

std::vector<curve_point> curve_of(const std::vector<const run_result*>& runs) {
  std::vector<curve_point> curve;
  for (const auto& [step, points] : points_by_step(runs)) {
    if (2 * points.size() < runs.size()) continue;
    const auto over = [&points = points](auto get) {
      values collected;
      for (const auto* at : points) collected.push_back(get(*at));
      return spread_of(collected);
    };
    curve_point at{.step = step};
    at.seconds = over([](const point& p) { return std::optional(p.seconds); })->median;
    at.bytes = over([](const point& p) { return std::optional(static_cast<double>(p.bytes_sent)); })->median;
    if (const auto samples = over([](const point& p) { return std::optional<double>(p.samples); }))
      at.samples = samples->median;
    at.accuracy = over([](const point& p) { return p.val_accuracy; });
    at.loss = over([](const point& p) { return p.val_loss; });
    curve.push_back(at);
  }
  return curve;
}

summary summary_of(const std::vector<const run_result*>& finished, bool has_target) {
  summary result;
  result.finished = finished.size();
  const auto over = [&](auto get) { return spread_of(each(finished, get)); };
  result.seconds = over([](const run_result& run) { return run.seconds; });
  result.samples = over([](const run_result& run) { return std::optional<double>(run.samples); });
  result.updates = over([](const run_result& run) { return std::optional<double>(run.updates); });
  result.bytes = over([](const run_result& run) { return std::optional<double>(run.bytes_sent); });
  result.final_accuracy = over([](const run_result& run) { return run.final_accuracy; });
  result.best_accuracy = over([](const run_result& run) { return run.best_accuracy; });
  result.staleness = over([](const run_result& run) { return run.staleness_mean; });
  result.idle_share = over([](const run_result& run) { return run.idle_share; });
  if (has_target) {
    result.seconds_to_target =
        to_target_of(each(finished, [](const run_result& run) { return run.seconds_to_target; }));
    result.bytes_to_target =
        to_target_of(each(finished, [](const run_result& run) { return std::optional<double>(run.bytes_to_target); }));
  }
  result.curve = curve_of(finished);
  return result;
}

}  // namespace

std::optional<spread> spread_of(const values& given) {
  std::vector<double> sorted;
  for (const auto& value : given)
    if (value) sorted.push_back(*value);
  if (sorted.empty()) return std::nullopt;
  std::sort(sorted.begin(), sorted.end());
  return spread_of_sorted(sorted);
}

std::optional<to_target> to_target_of(const values& taken) {
  if (taken.empty()) return std::nullopt;
  std::vector<double> sorted;
  to_target result;
  for (const auto& value : taken) {
    sorted.push_back(value.value_or(std::numeric_limits<double>::infinity()));
    if (value) ++result.reached;
  }
  std::sort(sorted.begin(), sorted.end());
  result.taken = spread_of_sorted(sorted);
  return result;
}

double coverage_of_range(std::size_t count) {
  return count == 0 ? 0 : 1 - std::ldexp(1.0, 1 - static_cast<int>(std::min<std::size_t>(count, 64)));
}

std::vector<summary> summaries_of(const comparison& what, const std::vector<made_run>& runs) {
  std::vector<summary> summaries;
  for (std::size_t i = 0; i < what.variants.size(); ++i) {
    std::vector<const run_result*> finished;
    std::size_t started = 0;
    for (const auto& [run, result] : runs) {
      if (run.variant != i) continue;
      ++started;
      if (result.finished()) finished.push_back(&result);
    }
    summaries.push_back(summary_of(finished, what.target.has_value()));
    summaries.back().runs = started;
  }
  return summaries;
}

}  // namespace troupe::comparing
