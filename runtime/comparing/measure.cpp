#include "troupe/runtime/comparing/measure.hpp"

#include "troupe/runtime/support/read_text.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <sstream>
#include <string>

namespace troupe::comparing {

namespace {

using json = nlohmann::json;

std::optional<double> number(const json& line, const char* key) {
  const auto found = line.find(key);
  return found != line.end() && found->is_number() ? std::optional(found->get<double>()) : std::nullopt;
}

std::optional<std::uint64_t> count(const json& line, const char* key) {
  const auto found = line.find(key);
  return found != line.end() && found->is_number_unsigned() ? std::optional(found->get<std::uint64_t>()) : std::nullopt;
}

std::string text(const json& line, const char* key) {
  const auto found = line.find(key);
  return found != line.end() && found->is_string() ? found->get<std::string>() : std::string();
}

/// Returns the lines that are JSON objects.
std::vector<json> lines_of(std::string_view metrics) {
  std::vector<json> lines;
  while (!metrics.empty()) {
    const auto line = metrics.substr(0, metrics.find('\n'));
    metrics.remove_prefix(std::min(metrics.size(), line.size() + 1));
    constexpr bool throws = false;
    auto parsed = json::parse(line, nullptr, throws);
    if (parsed.is_object()) lines.push_back(std::move(parsed));
  }
  return lines;
}

/// Sums the samples of a run over its lines, in order.
class sample_sum {
 public:
  /// Adds the samples since the last line with a smaller training time. Returns the sum.
  std::optional<std::uint64_t> add(const json& line) {
    const auto until = number(line, "train_seconds");
    if (!until || *until <= since_) return sum();
    const auto rate = number(line, "samples_per_second");
    if (rate)
      sum_ += *rate * (*until - since_);
    else
      known_ = false;
    since_ = *until;
    return sum();
  }

 private:
  std::optional<std::uint64_t> sum() const {
    return known_ ? std::optional(static_cast<std::uint64_t>(std::llround(sum_))) : std::nullopt;
  }

  double sum_{0}, since_{0};
  bool known_{true};
};

point point_of(const json& line, std::optional<std::uint64_t> samples) {
  return {.step = count(line, "step").value_or(0),
          .updates = count(line, "updates").value_or(0),
          .bytes_sent = count(line, "bytes_sent").value_or(0),
          .seconds = number(line, "seconds").value_or(0),
          .train_seconds = number(line, "train_seconds").value_or(0),
          .samples = samples,
          .train_loss = number(line, "train_loss"),
          .val_loss = number(line, "val_loss"),
          .val_accuracy = number(line, "val_accuracy")};
}

void note_target(run_result& result, const point& at, double target) {
  if (result.seconds_to_target || at.val_accuracy.value_or(-1) < target) return;
  result.seconds_to_target = at.seconds;
  result.bytes_to_target = at.bytes_sent;
  result.samples_to_target = at.samples;
}

/// Fills in the values that are known only at the end of a run.
void add_end(run_result& result, const json& end) {
  result.status = text(end, "status");
  result.seconds = number(end, "seconds");
  result.updates = count(end, "updates");
  result.bytes_sent = count(end, "bytes_sent");
  result.final_accuracy = number(end, "val_accuracy");
  result.staleness_mean = number(end, "staleness_mean");
  const auto rate = number(end, "samples_per_second"), time = number(end, "train_seconds");
  if (rate && time) result.samples = static_cast<std::uint64_t>(std::llround(*rate * *time));
}

}  // namespace

run_result result_of(std::string_view metrics, std::optional<double> target) {
  run_result result{.status = "failed"};
  sample_sum samples;
  for (const auto& line : lines_of(metrics)) {
    const auto event = text(line, "event");
    if (event == "end") add_end(result, line);
    if (event != "evaluation" && event != "epoch") continue;
    const auto at = point_of(line, samples.add(line));
    if (at.val_accuracy) result.best_accuracy = std::max(result.best_accuracy.value_or(0), *at.val_accuracy);
    if (target) note_target(result, at, *target);
    // The `epoch` line after an `evaluation` line of the same step repeats its figures.
    if (result.points.empty() || at.step > result.points.back().step) result.points.push_back(at);
  }
  return result;
}

namespace {

/// Adds what the table of workers says; see docs/outputs.md.
void add_workers(run_result& result, std::string_view table, double train_seconds) {
  std::istringstream lines{std::string(table)};
  std::string line;
  std::getline(lines, line);  // the header
  std::uint64_t samples = 0;
  double waited = 0;
  int workers = 0;
  while (std::getline(lines, line)) {
    unsigned long long of_worker = 0;
    double seconds = 0;
    if (std::sscanf(line.c_str(), "%*u,%*u,%llu,%*u,%*f,%*f,%lf", &of_worker, &seconds) != 2) return;
    samples += of_worker;
    waited += seconds;
    ++workers;
  }
  if (workers == 0) return;
  result.samples = samples;
  if (train_seconds > 0) result.idle_share = waited / workers / train_seconds;
}

}  // namespace

std::filesystem::path log_of(const std::filesystem::path& folder) {
  return folder.string() + ".log";
}

std::optional<run_result> read_result(const std::filesystem::path& folder, std::optional<double> target) {
  const auto metrics = folder / "metrics.jsonl";
  if (exists(metrics)) {
    auto result = result_of(read_text(metrics), target);
    if (const auto workers = folder / "workers.csv"; exists(workers) && !result.points.empty())
      add_workers(result, read_text(workers), result.points.back().train_seconds);
    return result;
  }
  if (exists(log_of(folder))) return run_result{.status = "failed"};
  return std::nullopt;
}

}  // namespace troupe::comparing
