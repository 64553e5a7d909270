#include "troupe/tools/comparing/measure.hpp"

#include "troupe/files/error.hpp"
#include "troupe/runtime/support/read_text.hpp"
#include "troupe/runtime/telemetry/metrics.hpp"
#include "troupe/tools/results/tables.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

namespace troupe::comparing {

namespace {

/// Sums the samples of a run over its lines, in order.
class sample_sum {
 public:
  /// Adds the samples since the last line with a smaller training time. Returns the sum.
  std::optional<std::uint64_t> add(const record& line) {
    if (line.train_seconds <= since_) return sum();
    if (line.samples_per_second)
      sum_ += *line.samples_per_second * (line.train_seconds - since_);
    else
      known_ = false;
    since_ = line.train_seconds;
    return sum();
  }

 private:
  std::optional<std::uint64_t> sum() const {
    return known_ ? std::optional(static_cast<std::uint64_t>(std::llround(sum_))) : std::nullopt;
  }

  double sum_{0}, since_{0};
  bool known_{true};
};

point point_of(const record& line, std::optional<std::uint64_t> samples) {
  return {.step = line.step,
          .updates = line.updates,
          .bytes_sent = line.bytes_sent,
          .seconds = line.seconds,
          .train_seconds = line.train_seconds,
          .samples = samples,
          .train_loss = line.train_loss,
          .val_loss = line.val_loss,
          .val_accuracy = line.val_accuracy};
}

void note_target(run_result& result, const point& at, double target) {
  if (result.seconds_to_target || at.val_accuracy.value_or(-1) < target) return;
  result.seconds_to_target = at.seconds;
  result.bytes_to_target = at.bytes_sent;
  result.samples_to_target = at.samples;
}

/// Fills in the values that are known only at the end of a run.
void add_end(run_result& result, const record& end) {
  result.status = end.status;
  result.seconds = end.seconds;
  result.updates = end.updates;
  result.bytes_sent = end.bytes_sent;
  result.final_accuracy = end.val_accuracy;
  result.staleness_mean = end.staleness_mean;
  result.train_seconds = end.train_seconds;
}

}  // namespace

run_result result_of(std::string_view metrics, std::optional<double> target) {
  run_result result{.status = "failed"};
  sample_sum samples;
  for (const auto& line : telemetry::records_of(metrics)) {
    if (line.event == "end") add_end(result, line);
    if (line.event != "evaluation" && line.event != "epoch") continue;
    const auto at = point_of(line, samples.add(line));
    if (at.val_accuracy) result.best_accuracy = std::max(result.best_accuracy.value_or(0), *at.val_accuracy);
    if (target) note_target(result, at, *target);
    // The `epoch` line after an `evaluation` line of the same step repeats its figures.
    if (result.points.empty() || at.step > result.points.back().step) result.points.push_back(at);
  }
  return result;
}

void add_workers(run_result& result, const std::string& table) try {
  const auto workers = results::workers_in(table, "workers.csv");
  if (workers.empty()) return;
  std::uint64_t samples = 0;
  double waited = 0;
  for (const auto& worker : workers) {
    samples += static_cast<std::uint64_t>(worker.samples);
    waited += worker.exchange_wait;
  }
  result.samples = samples;
  const auto whole = result.train_seconds.value_or(0);
  if (whole > 0) result.idle_share = waited / static_cast<double>(workers.size()) / whole;
} catch (const input_error&) {
}

std::filesystem::path log_of(const std::filesystem::path& folder) {
  return folder.string() + ".log";
}

std::optional<run_result> read_result(const std::filesystem::path& folder, std::optional<double> target) {
  const auto metrics = folder / "metrics.jsonl";
  if (exists(metrics)) {
    auto result = result_of(read_text(metrics), target);
    if (const auto workers = folder / "workers.csv"; exists(workers)) add_workers(result, read_text(workers));
    return result;
  }
  if (exists(log_of(folder))) return run_result{.status = "failed"};
  return std::nullopt;
}

}  // namespace troupe::comparing
