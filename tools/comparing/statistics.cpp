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

/// Returns a value of each run.
template <class Get>
values each(const std::vector<const run_result*>& runs, Get get) {
  values found;
  for (const auto* run : runs) found.push_back(get(*run));
  return found;
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
      values found;
      for (const auto* at : points) found.push_back(get(*at));
      return spread_of(found);
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
  summary of;
  of.finished = finished.size();
  const auto over = [&](auto get) { return spread_of(each(finished, get)); };
  of.seconds = over([](const run_result& run) { return run.seconds; });
  of.samples = over([](const run_result& run) { return std::optional<double>(run.samples); });
  of.updates = over([](const run_result& run) { return std::optional<double>(run.updates); });
  of.bytes = over([](const run_result& run) { return std::optional<double>(run.bytes_sent); });
  of.final_accuracy = over([](const run_result& run) { return run.final_accuracy; });
  of.best_accuracy = over([](const run_result& run) { return run.best_accuracy; });
  of.staleness = over([](const run_result& run) { return run.staleness_mean; });
  of.idle_share = over([](const run_result& run) { return run.idle_share; });
  if (has_target) {
    of.seconds_to_target = to_target_of(each(finished, [](const run_result& run) { return run.seconds_to_target; }));
    of.bytes_to_target =
        to_target_of(each(finished, [](const run_result& run) { return std::optional<double>(run.bytes_to_target); }));
  }
  of.curve = curve_of(finished);
  return of;
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
  to_target of;
  for (const auto& value : taken) {
    sorted.push_back(value.value_or(std::numeric_limits<double>::infinity()));
    if (value) ++of.reached;
  }
  std::sort(sorted.begin(), sorted.end());
  of.taken = spread_of_sorted(sorted);
  return of;
}

double coverage_of_range(std::size_t count) {
  return count == 0 ? 0 : 1 - std::ldexp(1.0, 1 - static_cast<int>(std::min<std::size_t>(count, 64)));
}

std::vector<summary> summaries_of(const comparison& what, const std::vector<made_run>& runs) {
  std::vector<summary> all;
  for (std::size_t i = 0; i < what.variants.size(); ++i) {
    std::vector<const run_result*> finished;
    std::size_t made = 0;
    for (const auto& [run, result] : runs) {
      if (run.variant != i) continue;
      ++made;
      if (result.finished()) finished.push_back(&result);
    }
    all.push_back(summary_of(finished, what.target.has_value()));
    all.back().runs = made;
  }
  return all;
}

}  // namespace troupe::comparing
