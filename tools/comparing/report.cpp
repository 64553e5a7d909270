#include "troupe/tools/comparing/report.hpp"

#include "troupe/files/text.hpp"
#include "troupe/runtime/support/units.hpp"
#include "troupe/runtime/support/write_aside.hpp"
#include "troupe/runtime/topology/value.hpp"
#include "troupe/tools/comparing/tables.hpp"
#include "troupe/tools/comparing/words.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <utility>

namespace troupe::comparing {

namespace {

using to_text = std::function<std::string(double)>;
constexpr auto last = std::numeric_limits<double>::max();

result_table::cell cell_of(const std::optional<spread>& of, const to_text& text) {
  return {spread_text(of, text), of ? of->median : last};
}

result_table::cell cell_of(const std::optional<to_target>& of, const to_text& text) {
  return {target_text(of, text), of && of->is_finite() ? of->taken.median : last};
}

}  // namespace

report make_report(comparison what, std::vector<made_run> runs) {
  auto summaries = summaries_of(what, runs);
  auto concluded = conclude(what, summaries);
  return {std::move(what), std::move(runs), std::move(summaries), std::move(concluded)};
}

result_table table_of(const report& of) {
  result_table table{.header = {"variant", "runs", "time", "samples", "updates", "sent"}, .rows = {}};
  const auto has = [&](auto member) {
    for (const auto& measured : of.summaries)
      if (measured.*member) return true;
    return false;
  };
  const auto stale = has(&summary::staleness), idle = has(&summary::idle_share);
  if (of.what.target) {
    const auto goal = human_number(100 * *of.what.target) + " %";
    table.header.insert(table.header.end(), {"time to " + goal, "sent until " + goal});
  }
  table.header.insert(table.header.end(), {"final accuracy", "best accuracy"});
  if (stale) table.header.emplace_back("staleness");
  if (idle) table.header.emplace_back("idle");
  for (std::size_t i = 0; i < of.summaries.size(); ++i) {
    const auto& measured = of.summaries[i];
    auto runs = std::to_string(measured.finished);
    if (measured.finished < of.what.repeats) runs += " of " + std::to_string(of.what.repeats);
    std::vector<result_table::cell> row{{of.what.variants[i].label, static_cast<double>(i)},
                                        {runs, static_cast<double>(measured.finished)},
                                        cell_of(measured.seconds, seconds_text),
                                        cell_of(measured.samples, count_text),
                                        cell_of(measured.updates, count_text),
                                        cell_of(measured.bytes, bytes_text)};
    if (of.what.target) {
      row.push_back(cell_of(measured.seconds_to_target, seconds_text));
      row.push_back(cell_of(measured.bytes_to_target, bytes_text));
    }
    row.push_back(cell_of(measured.final_accuracy, percent_text));
    row.push_back(cell_of(measured.best_accuracy, percent_text));
    if (stale) row.push_back(cell_of(measured.staleness, number_text));
    if (idle) row.push_back(cell_of(measured.idle_share, percent_text));
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::string subtitle_of(const report& of) {
  const auto& what = of.what;
  auto text = counted(what.variants.size(), "variant") + ", " + counted(what.repeats, "repeat") + " each with seed " +
              std::to_string(what.first_seed);
  if (what.repeats > 1) text += " to " + std::to_string(what.first_seed + what.repeats - 1);
  return text + (what.simulated ? ", simulated" : ", run one after the other in turns") + "; begun " + what.started +
         " UTC";
}

std::vector<std::string> missing_figures(const report& of) {
  const auto finished = [](const summary& measured) { return measured.finished > 0; };
  if (std::none_of(of.summaries.begin(), of.summaries.end(), finished))
    return {"There are no figures, because no run has finished."};
  const auto has_point = [&](auto member) {
    return std::any_of(of.summaries.begin(), of.summaries.end(), [&](const summary& measured) {
      return std::any_of(measured.curve.begin(), measured.curve.end(),
                         [&](const auto& at) { return (at.*member).has_value(); });
    });
  };
  std::vector<std::string> sentences, names;
  if (!has_point(&curve_point::accuracy)) names.emplace_back("validation accuracy");
  if (!has_point(&curve_point::loss)) names.emplace_back("validation loss");
  if (!names.empty())
    sentences.push_back("There are no curves of the " + text::listed(names, "and") +
                        ", because no run has reported a value.");
  return sentences;
}

std::string missing_target(const report& of) {
  const auto reaches = [](const summary& measured) {
    return measured.seconds_to_target && measured.seconds_to_target->is_finite();
  };
  if (!of.what.target || std::any_of(of.summaries.begin(), of.summaries.end(), reaches)) return {};
  return "There are no figures of what the target took, because no variant reached " +
         human_number(100 * *of.what.target) + " % in more than half of its runs.";
}

bool is_summary(const variant& of) {
  const auto count = of.settings.find("workers.count");
  const auto workers = count == of.settings.end() ? 0 : std::atoll(count->second.c_str());
  return workers > 1 &&
         of.wiring.find("<title>w0 to w" + std::to_string(workers - 1) + "</title>") != std::string::npos;
}

std::string undrawn_wirings(const report& of) {
  std::vector<std::string> names;
  for (const auto& candidate : of.what.variants)
    if (is_summary(candidate)) names.push_back(candidate.label);
  if (names.empty()) return {};
  return "Not drawn: " + text::listed(names, "and") +
         ". With so many workers, a drawing shows one box for all of them; it is in the folder wirings/.";
}

std::string machine_of(const report& of) {
  const auto& machines = of.what.machines;
  if (machines.empty()) return "machine unknown";
  const auto value_of = [&](const std::string& name) {
    std::string value;
    for (const auto& machine : machines) {
      const auto entry = machine.find(name);
      const auto on_machine = entry == machine.end() ? std::string("unknown") : entry->second;
      if (!value.empty() && on_machine != value) return std::string("several");
      value = on_machine;
    }
    return value;
  };
  return "Troupe " + value_of("Troupe") + ", LibTorch " + value_of("LibTorch") + "; CPU " + value_of("CPU") + ", " +
         value_of("CPU capability") + "; cores " + value_of("CPU cores");
}

void write_reports(const std::filesystem::path& folder, const report& of) {
  write_aside(folder / "compare.csv", compare_csv(of.what, of.runs));
  write_aside(folder / "curves.csv", curves_csv(of.what, of.runs));
  for (const auto& [path, content] : pictures_of(of)) {
    std::filesystem::create_directories((folder / path).parent_path());
    write_aside(folder / path, content);
  }
  write_aside(folder / "compare.md", markdown_of(of));
  write_aside(folder / "compare.html", html_of(of));
}

}  // namespace troupe::comparing
