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

/// Returns the beginning of a text that fits.
std::string fitted(const std::string& text, std::size_t columns) {
  if (columns_of_text(text) <= columns) return text;
  std::string made;
  std::size_t used = 0;
  for (const char byte : text) {
    const bool begins = (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
    if (begins && ++used >= columns) break;
    made += byte;
  }
  return columns > 0 ? made + "…" : "";
}

/// Values that a server sends may be of any size.
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

/// Adds items, as many to a line as fit.
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
  const auto what = run.model + " on " + run.data + ", " + count_text(static_cast<double>(run.workers.size())) +
                    (run.workers.size() == 1 ? " worker" : " workers") + (run.simulated ? ", simulated" : "");
  to.push_back(painted(title, bold_text, page) + "  " + painted(word, colour, page) +
               (columns_of_text(what) + 2 <= left ? "  " + what : ""));
}

/// The bar of the whole run, and its times.
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
  lines made;
  add_items(made, items, {.columns = page.columns});
  if (made.size() == 1 && columns_of_text(made[0]) + bar_columns + 2 <= page.columns)
    made[0] = painted(bar, cyan, page) + painted(rest, "\x1b[90m", page) + "  " + made[0];
  to.insert(to.end(), made.begin(), made.end());
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

/// A table whose columns are left out from the end of `least_important` on as long as it is too wide.
struct table {
  lines header;
  std::vector<lines> rows;
  std::vector<std::size_t> least_important{};

  /// Returns the width of each column; 0 for one that is left out.
  std::vector<std::size_t> widths(std::size_t columns) const {
    std::vector<std::size_t> made;
    for (std::size_t i = 0; i < header.size(); ++i) {
      made.push_back(columns_of_text(header[i]));
      for (const auto& row : rows) made[i] = std::max(made[i], columns_of_text(row[i]));
    }
    auto optional = least_important;
    const auto total = [&] {
      std::size_t sum = 0;
      for (const auto width : made) sum += width > 0 ? width + 2 : 0;
      return sum;
    };
    for (; !optional.empty() && total() > columns + 2; optional.pop_back()) made[optional.back()] = 0;
    return made;
  }
};

std::string line_of(const lines& cells, const std::vector<std::size_t>& widths) {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i)
    if (widths[i] > 0) line += (line.empty() ? "" : "  ") + cell(cells[i], widths[i]);
  return line;
}

/// Adds a table of which `room` rows fit; `after` returns what follows a row in the given number of columns.
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
  table made{.header = {"worker", "steps", "samples", "sent", "compute", "data", "exchange"}, .rows = {}};
  made.least_important = {5, 1, 3, 2};
  for (std::size_t rank = 0; rank < std::min(run.workers.size(), table_rows_max); ++rank) {
    const auto& one = run.workers[rank];
    const auto& of = one.shares;
    made.rows.push_back({std::to_string(rank), grouped(one.steps), grouped(one.samples), human_bytes(one.bytes_sent),
                         of ? watching::percent_text(of->compute) : "–", of ? watching::percent_text(of->data) : "–",
                         of ? watching::percent_text(of->exchange) : "–"});
  }
  return made;
}

diagnosis::shares with_rest(const watching::time_shares& of) {
  return {.compute = of.compute,
          .data = of.data,
          .exchange = of.exchange,
          .other = std::max(0.0, 1 - of.compute - of.data - of.exchange)};
}

/// The emulated links or, without them, the edges; those that carry most first.
table links_of(const std::vector<watching::seen_link>& links, const char* name) {
  auto sorted = links;
  const auto rate = [](const auto& one) { return one.rate.value_or(0); };
  std::stable_sort(sorted.begin(), sorted.end(), [&](const auto& a, const auto& b) { return rate(a) > rate(b); });
  sorted.resize(std::min(sorted.size(), table_rows_max));
  table made{.header = {name, "rate", "sent", "occupied", "queue", "mean wait", "staleness"}, .rows = {}};
  made.least_important = {2, 3, 5, 4, 6};
  for (const auto& each : sorted)
    made.rows.push_back({fitted(each.name, name_columns_max), text_of(each.rate, watching::rate_text),
                         text_of(each.bytes, watching::bytes_text), text_of(each.busy, watching::percent_text),
                         text_of(each.queue, short_number), text_of(each.wait_mean, watching::wait_text),
                         text_of(each.staleness, count_text)});
  for (std::size_t column = made.header.size(); column-- > 1;) {
    const auto is_unknown = [&](const auto& row) { return row[column] == "–"; };
    if (!std::all_of(made.rows.begin(), made.rows.end(), is_unknown)) continue;
    made.header.erase(made.header.begin() + static_cast<std::ptrdiff_t>(column));
    for (auto& row : made.rows) row.erase(row.begin() + static_cast<std::ptrdiff_t>(column));
    std::erase(made.least_important, column);
    for (auto& each : made.least_important) each -= each > column ? 1 : 0;
  }
  return made;
}

}  // namespace

std::vector<std::string> top_lines(const watching::seen_run& run, const top_page& page) {
  lines made;
  add_heading(made, run, page);
  add_progress(made, run, page);
  add_numbers(made, run, page);
  if (!run.waiting.empty()) made.push_back(fitted(run.waiting, page.columns));
  const bool emulated = !run.links.empty();
  const auto& links = emulated ? run.links : run.edges;
  const auto room = [&] { return page.rows - std::min(page.rows, made.size() + 2); };  // a blank line and the header
  const auto of_links = links.empty() ? 0 : std::min<std::size_t>(links.size() + 2, room() / 2);
  const auto of_workers = std::min(run.workers.size(), room() - std::min(room(), of_links));
  add_table(made, workers_of(run), run.workers.size(), of_workers, page, [&](std::size_t rank, std::size_t columns) {
    constexpr std::size_t least = 10, most = 40;
    const auto& of = run.workers[rank].shares;
    return of && columns >= least ? "  " + share_bar(with_rest(*of), std::min(columns, most), page.coloured) : "";
  });
  add_table(made, links_of(links, emulated ? "link" : "edge"), links.size(), room(), page,
            [](std::size_t, std::size_t) { return std::string(); });
  if (made.size() > page.rows) made.resize(page.rows);
  return made;
}

}  // namespace troupe::apps
