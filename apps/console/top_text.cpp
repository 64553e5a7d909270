#include "troupe/apps/console/top_text.hpp"

#include "troupe/apps/console/page.hpp"
#include "troupe/apps/console/share_bar.hpp"
#include "troupe/runtime/support/units.hpp"
#include "troupe/tools/watching/summary.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

namespace troupe::apps {

namespace {

using lines = std::vector<std::string>;
using optional_number = std::optional<double>;

constexpr std::size_t table_rows_max = 64, name_columns_max = 32;
constexpr auto* bold_text = "\x1b[1m";
constexpr auto* green = "\x1b[32m";
constexpr auto* red = "\x1b[31m";
constexpr auto* cyan = "\x1b[36m";

std::string painted(const std::string& text, const char* colour, const top_page& page) {
  return page.coloured ? colour + text + "\x1b[0m" : text;
}

/// Returns the beginning of a text that fits into `columns`.
std::string fitted(const std::string& text, std::size_t columns) {
  if (columns_of_text(text) <= columns) return text;
  std::string beginning;
  std::size_t used = 0;
  for (const char byte : text) {
    const bool begins = (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
    if (begins && ++used >= columns) break;
    beginning += byte;
  }
  return columns > 0 ? beginning + "…" : "";
}

/// Rounds a value. Limits it, because values that a server sends may be of any size.
std::uint64_t whole(double value) {
  return static_cast<std::uint64_t>(std::llround(std::clamp(value, 0.0, 1e18)));
}

std::string time_text(double seconds) {
  return human_duration(std::chrono::seconds(whole(std::min(seconds, 1e9))));
}

std::string text_of(const optional_number& value, std::string (*as_text)(double)) {
  return value ? as_text(*value) : "–";
}

std::string short_number(double value) {
  return human_number(value, 4);
}
std::string count_text(double value) {
  return grouped(whole(value));
}

/// Adds items, as many per line as fit.
void add_items(lines& to, const lines& items, const top_page& page) {
  std::string line;
  for (const auto& item : items) {
    const auto text = fitted(item, page.columns);
    if (!line.empty() && columns_of_text(line) + 3 + columns_of_text(text) > page.columns)
      to.push_back(std::exchange(line, ""));
    line += (line.empty() ? "" : "   ") + text;
  }
  if (!line.empty()) to.push_back(line);
}

void add_heading(lines& to, const watching::seen_run& run, const top_page& page) {
  const auto word = fitted(watching::status_text(run.status), name_columns_max);
  const auto* colour = run.status == "failed"                             ? red
                       : run.status == "done" || run.status == "training" ? green
                                                                          : bold_text;
  const auto room = page.columns - std::min(page.columns, columns_of_text(word) + 2);
  const auto title = fitted(run.title, room);
  const auto left = room - std::min(room, columns_of_text(title));
  const auto description = run.model + " on " + run.data + ", " + count_text(static_cast<double>(run.workers.size())) +
                           (run.workers.size() == 1 ? " worker" : " workers") + (run.simulated ? ", simulated" : "");
  to.push_back(painted(title, bold_text, page) + "  " + painted(word, colour, page) +
               (columns_of_text(description) + 2 <= left ? "  " + description : ""));
}

/// Adds the progress bar of the whole run, and its times.
void add_progress(lines& to, const watching::seen_run& run, const top_page& page) {
  const auto share = run.steps > 0 ? std::min(1.0, static_cast<double>(run.step) / static_cast<double>(run.steps)) : 0;
  lines items{human_number(std::floor(100 * share), 3) + " %",
              "step " + grouped(run.step) + " of " + grouped(run.steps)};
  if (run.seconds) items.push_back(time_text(*run.seconds) + (run.simulated ? " of virtual time" : ""));
  if (run.seconds_left) items.push_back(time_text(*run.seconds_left) + " left");
  constexpr std::size_t bar_columns = 24;
  const auto full = static_cast<std::size_t>(std::lround(share * bar_columns));
  std::string bar, rest;
  for (std::size_t i = 0; i < full; ++i) bar += "━";
  for (std::size_t i = full; i < bar_columns; ++i) rest += page.coloured ? "━" : "·";
  lines wrapped;
  add_items(wrapped, items, {.columns = page.columns});
  if (wrapped.size() == 1 && columns_of_text(wrapped[0]) + bar_columns + 2 <= page.columns)
    wrapped[0] = painted(bar, cyan, page) + painted(rest, "\x1b[90m", page) + "  " + wrapped[0];
  to.insert(to.end(), wrapped.begin(), wrapped.end());
}

void add_numbers(lines& to, const watching::seen_run& run, const top_page& page) {
  lines items;
  const auto add = [&](const std::string& name, const optional_number& value, std::string (*as_text)(double)) {
    if (value) items.push_back(name + " " + as_text(*value));
  };
  if (run.samples_per_second) items.push_back(count_text(*run.samples_per_second) + " samples/s");
  add("training loss", run.train_loss, short_number);
  add("training accuracy", run.train_accuracy, watching::percent_text);
  add("validation loss", run.val_loss, short_number);
  add("validation accuracy", run.val_accuracy, [](double share) { return human_number(100 * share, 4) + " %"; });
  add("learning rate", run.lr, short_number);
  if (run.bytes_sent > 0) items.push_back("sent " + human_bytes(run.bytes_sent));
  add("consensus distance", run.consensus_distance, short_number);
  add("mean staleness", run.staleness_mean, short_number);
  add_items(to, items, page);
}

/// A table. While it is too wide, columns are left out, beginning at the end of `least_important`.
struct table {
  lines header;
  std::vector<lines> rows;
  std::vector<std::size_t> least_important{};

  /// Returns the width of each column; 0 for one that is left out.
  std::vector<std::size_t> widths(std::size_t columns) const {
    std::vector<std::size_t> result;
    for (std::size_t i = 0; i < header.size(); ++i) {
      result.push_back(columns_of_text(header[i]));
      for (const auto& row : rows) result[i] = std::max(result[i], columns_of_text(row[i]));
    }
    auto optional = least_important;
    const auto total = [&] {
      std::size_t sum = 0;
      for (const auto width : result) sum += width > 0 ? width + 2 : 0;
      return sum;
    };
    for (; !optional.empty() && total() > columns + 2; optional.pop_back()) result[optional.back()] = 0;
    return result;
  }
};

std::string line_of(const lines& cells, const std::vector<std::size_t>& widths) {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i)
    if (widths[i] > 0) line += (line.empty() ? "" : "  ") + cell(cells[i], widths[i]);
  return line;
}

/// Adds a table of which `room` rows fit. `after` returns the text that follows a row in the given number of columns.
template <class After>
void add_table(lines& to, const table& of, std::size_t all, std::size_t room, const top_page& page, After after) {
  if (of.rows.empty() || room == 0) return;
  const auto widths = of.widths(page.columns);
  to.emplace_back();
  to.push_back(fitted(line_of(of.header, widths), page.columns));
  const auto shown = std::min({of.rows.size(), all > room ? room - 1 : room, table_rows_max});
  for (std::size_t i = 0; i < shown; ++i) {
    const auto line = fitted(line_of(of.rows[i], widths), page.columns);
    const auto used = columns_of_text(line) + 2;
    to.push_back(line + after(i, page.columns - std::min(page.columns, used)));
  }
  if (all > shown) to.push_back(fitted("… and " + grouped(all - shown) + " more", page.columns));
}

table workers_of(const watching::seen_run& run) {
  table result{.header = {"worker", "steps", "samples", "sent", "compute", "data", "exchange"}, .rows = {}};
  result.least_important = {5, 1, 3, 2};
  for (std::size_t rank = 0; rank < std::min(run.workers.size(), table_rows_max); ++rank) {
    const auto& worker = run.workers[rank];
    const auto& shares = worker.shares;
    result.rows.push_back({std::to_string(rank), grouped(worker.steps), grouped(worker.samples),
                           human_bytes(worker.bytes_sent), shares ? watching::percent_text(shares->compute) : "–",
                           shares ? watching::percent_text(shares->data) : "–",
                           shares ? watching::percent_text(shares->exchange) : "–"});
  }
  return result;
}

diagnosis::shares with_rest(const watching::time_shares& of) {
  return {.compute = of.compute,
          .data = of.data,
          .exchange = of.exchange,
          .other = std::max(0.0, 1 - of.compute - of.data - of.exchange)};
}

/// Returns the table of the emulated links or, without them, of the edges; the highest rates come first.
table links_of(const std::vector<watching::seen_link>& links, const char* name) {
  auto sorted = links;
  const auto rate = [](const auto& link) { return link.rate.value_or(0); };
  std::stable_sort(sorted.begin(), sorted.end(), [&](const auto& a, const auto& b) { return rate(a) > rate(b); });
  sorted.resize(std::min(sorted.size(), table_rows_max));
  table result{.header = {name, "rate", "sent", "occupied", "queue", "mean wait", "staleness"}, .rows = {}};
  result.least_important = {2, 3, 5, 4, 6};
  for (const auto& link : sorted)
    result.rows.push_back({fitted(link.name, name_columns_max), text_of(link.rate, watching::rate_text),
                           text_of(link.bytes, watching::bytes_text), text_of(link.busy, watching::percent_text),
                           text_of(link.queue, short_number), text_of(link.wait_mean, watching::wait_text),
                           text_of(link.staleness, count_text)});
  for (std::size_t column = result.header.size(); column-- > 1;) {
    const auto is_unknown = [&](const auto& row) { return row[column] == "–"; };
    if (!std::all_of(result.rows.begin(), result.rows.end(), is_unknown)) continue;
    result.header.erase(result.header.begin() + static_cast<std::ptrdiff_t>(column));
    for (auto& row : result.rows) row.erase(row.begin() + static_cast<std::ptrdiff_t>(column));
    std::erase(result.least_important, column);
    for (auto& index : result.least_important) index -= index > column ? 1 : 0;
  }
  return result;
}

}  // namespace

std::vector<std::string> top_lines(const watching::seen_run& run, const top_page& page) {
  lines result;
  add_heading(result, run, page);
  add_progress(result, run, page);
  add_numbers(result, run, page);
  if (!run.waiting.empty()) result.push_back(fitted(run.waiting, page.columns));
  const bool emulated = !run.links.empty();
  const auto& links = emulated ? run.links : run.edges;
  const auto room = [&] { return page.rows - std::min(page.rows, result.size() + 2); };  // a blank line and the header
  const auto of_links = links.empty() ? 0 : std::min<std::size_t>(links.size() + 2, room() / 2);
  const auto of_workers = std::min(run.workers.size(), room() - std::min(room(), of_links));
  add_table(result, workers_of(run), run.workers.size(), of_workers, page, [&](std::size_t rank, std::size_t columns) {
    constexpr std::size_t least = 10, most = 40;
    const auto& shares = run.workers[rank].shares;
    return shares && columns >= least ? "  " + share_bar(with_rest(*shares), std::min(columns, most), page.coloured)
                                      : "";
  });
  add_table(result, links_of(links, emulated ? "link" : "edge"), links.size(), room(), page,
            [](std::size_t, std::size_t) { return std::string(); });
  if (result.size() > page.rows) result.resize(page.rows);
  return result;
}

}  // namespace troupe::apps
