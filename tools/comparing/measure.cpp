#include "troupe/tools/comparing/measure.hpp"

#include "troupe/files/json.hpp"
#include "troupe/runtime/support/read_text.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>
#include <string>
#include <vector>

namespace troupe::comparing {

namespace {

using json = files::json;

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
    auto parsed = files::parse_json(line);
    if (parsed.is_object()) lines.push_back(std::move(parsed));
  }
  return lines;
}

/// Sums the samples of a run over its lines, in order.
class sample_sum {
 public:
  /// Adds the samples since the last line with a smaller training time. Returns the sum.
  std::optional<std::uint64_t> add(const json& line) {
    const auto until = files::number_at(line, "train_seconds");
    if (!until || *until <= since_) return sum();
    const auto rate = files::number_at(line, "samples_per_second");
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
          .seconds = files::number_at(line, "seconds").value_or(0),
          .train_seconds = files::number_at(line, "train_seconds").value_or(0),
          .samples = samples,
          .train_loss = files::number_at(line, "train_loss"),
          .val_loss = files::number_at(line, "val_loss"),
          .val_accuracy = files::number_at(line, "val_accuracy")};
}

void note_target(run_result& result, const point& at, double target) {
  if (result.seconds_to_target || at.val_accuracy.value_or(-1) < target) return;
  result.seconds_to_target = at.seconds;
  result.bytes_to_target = at.bytes_sent;
  result.samples_to_target = at.samples;
}

/// Returns the cells of a line of a CSV file whose cells contain no commas.
std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream rest{line};
  for (std::string cell; std::getline(rest, cell, ',');) cells.push_back(cell);
  return cells;
}

template <class Number>
std::optional<Number> number_in(const std::string& cell) {
  Number value{};
  const auto* end = cell.data() + cell.size();
  const auto [stop, error] = std::from_chars(cell.data(), end, value);
  return error == std::errc{} && stop == end ? std::optional(value) : std::nullopt;
}

/// Fills in the values that are known only at the end of a run.
void add_end(run_result& result, const json& end) {
  result.status = text(end, "status");
  result.seconds = files::number_at(end, "seconds");
  result.updates = count(end, "updates");
  result.bytes_sent = count(end, "bytes_sent");
  result.final_accuracy = files::number_at(end, "val_accuracy");
  result.staleness_mean = files::number_at(end, "staleness_mean");
  result.train_seconds = files::number_at(end, "train_seconds");
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

void add_workers(run_result& result, const std::string& table) {
  std::istringstream lines{table};
  std::string line;
  if (!std::getline(lines, line)) return;
  const auto header = cells_of(line);
  const auto column = [&](const char* name) {
    return static_cast<std::size_t>(std::find(header.begin(), header.end(), name) - header.begin());
  };
  const auto of_samples = column("samples"), of_waits = column("exchange_wait_seconds");
  std::uint64_t samples = 0;
  double waited = 0;
  std::size_t workers = 0;
  for (; std::getline(lines, line); ++workers) {
    const auto cells = cells_of(line);
    if (std::max(of_samples, of_waits) >= cells.size()) return;
    const auto count = number_in<std::uint64_t>(cells[of_samples]);
    const auto seconds = number_in<double>(cells[of_waits]);
    if (!count || !seconds) return;
    samples += *count;
    waited += *seconds;
  }
  if (workers == 0) return;
  result.samples = samples;
  const auto whole = result.train_seconds.value_or(0);
  if (whole > 0) result.idle_share = waited / static_cast<double>(workers) / whole;
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
