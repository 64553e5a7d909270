#include "troupe/tools/diagnosis/measured_run.hpp"

#include "troupe/files/json.hpp"
#include "troupe/runtime/support/read_text.hpp"
#include "troupe/runtime/topology/error.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <sstream>

namespace troupe::diagnosis {

namespace {

using json = files::json;

/// A line of a CSV file, by the names of its columns.
class csv_row {
 public:
  csv_row(const std::vector<std::string>& header, const std::vector<std::string>& cells, std::string place)
      : place_(std::move(place)) {
    for (std::size_t i = 0; i < std::min(header.size(), cells.size()); ++i) cells_[header[i]] = cells[i];
  }

  bool has(const std::string& column) const { return cells_.contains(column); }

  const std::string& text(const std::string& column) const {
    const auto found = cells_.find(column);
    if (found == cells_.end()) throw input_error(place_ + ": the row has no value in the column " + column);
    return found->second;
  }

  template <class Number>
  Number number(const std::string& column) const {
    const auto& cell = text(column);
    Number value{};
    const auto* end = cell.data() + cell.size();
    const auto [stop, error] = std::from_chars(cell.data(), end, value);
    if (error != std::errc{} || stop != end || !std::isfinite(static_cast<double>(value)))
      throw input_error(place_ + ": the value of " + column + " is not a number");
    return value;
  }

 private:
  std::map<std::string, std::string> cells_;
  std::string place_;
};

/// Returns the rows of a CSV file whose cells contain no commas.
std::vector<csv_row> rows_of(const std::string& table, const std::string& path) {
  const auto cells_of = [](const std::string& line) {
    std::vector<std::string> cells;
    std::istringstream rest{line};
    for (std::string cell; std::getline(rest, cell, ',');) cells.push_back(cell);
    return cells;
  };
  std::vector<csv_row> rows;
  std::vector<std::string> header;
  std::istringstream lines{table};
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (header.empty())
      header = cells_of(line);
    else
      rows.emplace_back(header, cells_of(line), path + ":" + std::to_string(number));
  }
  return rows;
}

double number(const json& line, const char* key) {
  const auto found = line.find(key);
  return found != line.end() && found->is_number() ? found->get<double>() : 0;
}

std::string text(const json& line, const char* key) {
  const auto found = line.find(key);
  return found != line.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace

std::uint64_t measured_run::samples() const {
  std::uint64_t sum = 0;
  for (const auto& each : workers) sum += each.samples;
  return sum;
}

measured_run parse_run(std::string_view metrics, const std::string& workers, const std::string& links,
                       const std::string& name) {
  measured_run run;
  while (!metrics.empty()) {
    const auto line = metrics.substr(0, metrics.find('\n'));
    metrics.remove_prefix(std::min(metrics.size(), line.size() + 1));
    const auto object = files::parse_json(line);
    if (!object.is_object()) continue;
    const auto event = text(object, "event");
    if (event == "evaluation") ++run.evaluations;
    if (event != "end") continue;
    run.status = text(object, "status");
    run.seconds = number(object, "seconds");
    run.train_seconds = number(object, "train_seconds");
  }
  const auto if_any = [](const auto& row, const char* column) {  // older runs lack it
    return row.has(column) ? row.template number<double>(column) : 0;
  };
  for (const auto& row : rows_of(workers, name + "/workers.csv"))
    run.workers.push_back({.steps = row.number<std::uint64_t>("steps"),
                           .samples = row.number<std::uint64_t>("samples"),
                           .busy = row.number<double>("busy_seconds"),
                           .data_wait = row.number<double>("data_wait_seconds"),
                           .exchange_wait = row.number<double>("exchange_wait_seconds"),
                           .cpu = if_any(row, "cpu_seconds"),
                           .loading_cpu = if_any(row, "loading_cpu_seconds")});
  for (const auto& row : rows_of(links, name + "/links.csv"))
    run.links.push_back({.name = row.text("interface") + (row.text("direction") == "send" ? " sends" : " receives"),
                         .bytes = row.number<std::uint64_t>("bytes"),
                         .busy_share = row.number<double>("busy_share"),
                         .wait_mean = row.number<double>("wait_mean_seconds")});
  if (run.status.empty())
    throw input_error(name + ": the run has not ended: the last line of metrics.jsonl is not an `end` line; expected " +
                      "the results folder of a finished run");
  if (run.workers.empty() || run.train_seconds <= 0)
    throw input_error(name +
                      ": there are no times to explain: the run has made no steps, or is a replay, which has no times; "
                      "expected the results folder of a run or a simulation");
  return run;
}

measured_run read_run(const std::filesystem::path& folder) {
  const auto metrics = folder / "metrics.jsonl", workers = folder / "workers.csv", links = folder / "links.csv";
  if (!exists(metrics))
    throw input_error(folder.string() + ": there is no metrics.jsonl; expected the results folder of a run");
  if (!exists(workers))
    throw input_error(folder.string() +
                      ": there is no workers.csv, which a run writes when it ends without an error; expected the "
                      "results folder of a finished run");
  return parse_run(read_text(metrics), read_text(workers), exists(links) ? read_text(links) : "", folder.string());
}

}  // namespace troupe::diagnosis
