#include "troupe/tools/results/tables.hpp"

#include "troupe/files/error.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <sstream>
#include <system_error>
#include <utility>

namespace troupe::results {

namespace {

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream rest{line};
  for (std::string cell; std::getline(rest, cell, ',');) cells.push_back(cell);
  return cells;
}

/// A line of a table whose cells contain no commas. Cells are found by the names of their columns.
class row {
 public:
  row(const std::vector<std::string>& header, const std::vector<std::string>& cells, std::string place)
      : place_(std::move(place)) {
    for (std::size_t i = 0; i < std::min(header.size(), cells.size()); ++i) cells_[header[i]] = cells[i];
  }

  const std::string& text(const std::string& column) const {
    const auto cell = cells_.find(column);
    if (cell == cells_.end()) throw input_error(place_ + ": the row has no value in the column " + column);
    return cell->second;
  }

  template <class Number>
  Number number(const std::string& column) const {
    const auto& cell = text(column);
    Number value{};
    const auto* end = cell.data() + cell.size();
    const auto [stop, error] = std::from_chars(cell.data(), end, value);
    if (error != std::errc{} || stop != end || !std::isfinite(static_cast<double>(value)) || value < 0)
      throw input_error(place_ + ": the value of " + column + " is not a number, 0 or larger");
    return value;
  }

  /// Returns the same, or 0 in tables of older runs, which lack the column.
  double number_if_any(const std::string& column) const { return cells_.contains(column) ? number<double>(column) : 0; }

 private:
  std::map<std::string, std::string> cells_;
  std::string place_;
};

std::vector<row> rows_of(const std::string& table, const std::string& path) {
  std::vector<row> rows;
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

}  // namespace

std::vector<worker_total> workers_in(const std::string& table, const std::string& path) {
  std::vector<worker_total> workers;
  for (const auto& row : rows_of(table, path))
    workers.push_back({.steps = row.number<std::uint64_t>("steps"),
                       .samples = row.number<std::int64_t>("samples"),
                       .bytes_sent = row.number<std::uint64_t>("bytes_sent"),
                       .busy = row.number<double>("busy_seconds"),
                       .data_wait = row.number<double>("data_wait_seconds"),
                       .exchange_wait = row.number<double>("exchange_wait_seconds"),
                       .cpu = row.number_if_any("cpu_seconds"),
                       .loading_cpu = row.number_if_any("loading_cpu_seconds")});
  return workers;
}

std::vector<link_total> links_in(const std::string& table, const std::string& path) {
  std::vector<link_total> links;
  for (const auto& row : rows_of(table, path))
    links.push_back({.name = row.text("interface") + (row.text("direction") == "send" ? " sends" : " receives"),
                     .bytes = row.number<std::uint64_t>("bytes"),
                     .busy_share = row.number<double>("busy_share"),
                     .wait_mean = row.number<double>("wait_mean_seconds")});
  return links;
}

}  // namespace troupe::results
