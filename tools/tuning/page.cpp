// tune.html: what to use, what it costs and how sure that is, with the curves and the table behind it.
#include "troupe/files/json.hpp"
#include "troupe/runtime/support/units.hpp"
#include "troupe/tools/comparing/figures.hpp"
#include "troupe/tools/comparing/words.hpp"
#include "troupe/tools/pages/html.hpp"
#include "troupe/tools/pages/sources.hpp"
#include "troupe/tools/tuning/page_sources.hpp"
#include "troupe/tools/tuning/report.hpp"

#include <utility>

namespace troupe::tuning {

namespace {

using json = files::json;
using pages::escaped;

/// Returns the trainings as those of a comparison, whose figures can be drawn.
std::pair<comparing::comparison, std::vector<comparing::made_run>> as_comparison(const findings& of) {
  comparing::comparison what{.target = of.target, .simulated = true};
  std::vector<comparing::made_run> runs;
  for (const auto i : of.order) {
    const auto& each = of.all[i];
    if (each.trainings.empty()) continue;
    std::uint32_t repeat = 0;
    for (const auto& training : each.trainings)
      runs.push_back({.run = {.variant = what.variants.size(), .repeat = ++repeat, .seed = training.seed},
                      .result = training.result});
    what.repeats = std::max(what.repeats, repeat);
    what.variants.push_back({.label = each.what.label, .folder = each.folder});
  }
  return {std::move(what), std::move(runs)};
}

std::string row_of(const std::string& tag, const std::vector<std::string>& cells) {
  std::string text = "<tr>";
  for (const auto& cell : cells) text += "<" + tag + ">" + escaped(cell) + "</" + tag + ">";
  return text + "</tr>\n";
}

std::string candidates_html(const findings& of) {
  std::string text =
      "<thead>" +
      row_of("th", {"candidate", "seconds per step", "MB per worker and step",
                    of.target ? "time to " + comparing::percent_text(*of.target) : "result", "why not"}) +
      "</thead>\n<tbody>\n";
  for (const auto i : of.order) {
    const auto& each = of.all[i];
    text += row_of("td", {each.what.label, human_number(each.step.seconds, 3), human_number(each.step.megabytes, 3),
                          outcome_of(each, of), each.out});
  }
  for (const auto& [label, reason] : of.refused) text += row_of("td", {label, "", "", "", reason});
  return text + "</tbody>\n";
}

std::string machine_html(const findings& of) {
  std::string text;
  for (const auto& [name, value] : of.machine) text += (text.empty() ? "" : ", ") + escaped(name + " " + value);
  return text;
}

}  // namespace

std::string html_of(const findings& of) {
  const auto [what, runs] = as_comparison(of);
  const auto summaries = comparing::summaries_of(what, runs);
  std::string curves, answer, limits;
  json csv = json::object();
  auto figures = comparing::curve_figures(what, summaries);
  for (auto& figure : comparing::target_figures(what, summaries)) figures.push_back(std::move(figure));
  for (const auto& figure : figures) {
    if (!figure.linear.has_values()) continue;
    const auto form = comparing::form_of(figure, figure.is_wide, false);
    curves += pages::card_of(figure.linear.name, pages::draw(form));
    csv[figure.linear.name] = figure.csv;
  }
  for (const auto& sentence : conclusion_of(of))
    answer += answer.empty() ? "<p class=\"conclusion\"><strong>" + escaped(sentence) + "</strong></p>\n"
                             : "<p>" + escaped(sentence) + "</p>\n";
  for (const auto& sentence : limits_of(of)) limits += "<li>" + escaped(sentence) + "</li>\n";
  return pages::filled(page_sources::tune_html,
                       {{"page_css", std::string(pages::sources::page_css)},
                        {"figure_css", pages::figure_style()},
                        {"figure_js", std::string(pages::sources::figure_js)},
                        {"network", escaped(of.network)},
                        {"subtitle", escaped(of.file + ", searched for " + comparing::seconds_text(of.took) + " of " +
                                             comparing::seconds_text(of.budget))},
                        {"machine", machine_html(of)},
                        {"answer", answer},
                        {"limits", limits},
                        {"curves", curves},
                        {"candidates", candidates_html(of)},
                        {"csv", pages::script_json(files::json_text(csv))}});
}

}  // namespace troupe::tuning
