// compare.html. Every figure is drawn here, so that the page can be read and printed without its script, which adds
// what the pointer and the buttons do.
#include "troupe/files/json.hpp"
#include "troupe/tools/comparing/figures.hpp"
#include "troupe/tools/comparing/page_sources.hpp"
#include "troupe/tools/comparing/report.hpp"
#include "troupe/tools/pages/html.hpp"
#include "troupe/tools/pages/sources.hpp"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

namespace troupe::comparing {

namespace {

using json = files::json;
using pages::escaped;

/// Returns a cell of the results; a range in brackets is on a line of its own.
std::string cell_html(const std::string& text) {
  const auto range = text.find(" (");
  if (range == std::string::npos) return escaped(text);
  const auto inner = text.substr(range + 2, text.size() - range - 3);
  std::string small;
  constexpr std::string_view to = " to ";
  for (std::size_t begin = 0; begin <= inner.size();) {
    const auto end = std::min(inner.find(to, begin), inner.size());
    small += (small.empty() ? "<span>" : " to <span>") + escaped(inner.substr(begin, end - begin)) + "</span>";
    begin = end + to.size();
  }
  return escaped(text.substr(0, range)) + "<small>" + small + "</small>";
}

/// Draws every form of a figure. All but the first are hidden; the script of the page switches between them.
std::string figure_html(const figure_pair& of) {
  std::string forms;
  const auto add = [&](bool logarithmic_x, bool logarithmic_y) {
    const auto form = form_of(of, logarithmic_x, logarithmic_y);
    const auto name = [](bool logarithmic) { return std::string(logarithmic ? "logarithmic" : "linear"); };
    forms += "<div class=\"form\" data-x=\"" + name(logarithmic_x) + "\" data-y=\"" + name(logarithmic_y) +
             "\" data-suffix=\"" + escaped(form.name.substr(of.linear.name.size())) + "\"" +
             (forms.empty() ? "" : " hidden") + ">" + pages::draw(form) + "</div>\n";
  };
  for (const bool logarithmic_x : {of.is_wide, !of.is_wide}) {
    add(logarithmic_x, false);
    if (of.linear.kind != pages::figure_kind::rows) add(logarithmic_x, true);
  }
  return pages::card_of(of.linear.name, forms);
}

std::string figures_html(const std::vector<figure_pair>& figures) {
  std::string text;
  for (const auto& figure : figures)
    if (figure.linear.has_values()) text += figure_html(figure);
  return text;
}

std::string results_html(const report& of) {
  const auto table = table_of(of);
  std::string text = "<thead><tr>";
  for (const auto& name : table.header)
    text += "<th scope=\"col\"><button type=\"button\">" + escaped(name) + "</button></th>";
  text += "</tr></thead>\n<tbody>\n";
  for (const auto& row : table.rows) {
    text += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) {
      const auto* tag = i == 0 ? "th scope=\"row\"" : "td";
      text += "<" + std::string(tag) + " data-rank=\"" + files::json_text(json(row[i].rank)) + "\">" +
              (i == 0 ? escaped(row[i].text) : cell_html(row[i].text)) + (i == 0 ? "</th>" : "</td>");
    }
    text += "</tr>\n";
  }
  return text + "</tbody>\n";
}

std::string settings_html(const report& of) {
  const auto differing = differing_settings(of.what);
  if (differing.empty()) return "<tbody><tr><td>The variants have the same settings.</td></tr></tbody>";
  std::string text = "<thead><tr><th scope=\"col\">setting</th>";
  for (const auto& candidate : of.what.variants) text += "<th scope=\"col\">" + escaped(candidate.label) + "</th>";
  text += "</tr></thead>\n<tbody>\n";
  for (const auto& [key, values, shown] : differing) {
    text += "<tr><th scope=\"row\">" + escaped(shown) + "</th>";
    for (const auto& value : values) text += "<td>" + (value.empty() ? "–" : escaped(value)) + "</td>";
    text += "</tr>\n";
  }
  return text + "</tbody>\n";
}

/// Returns the wirings as pictures in data: URLs, because styles and names inside one must not affect another.
std::string wirings_html(const report& of) {
  std::string text;
  for (const auto& candidate : of.what.variants) {
    if (is_summary(candidate)) continue;
    const auto url = pages::url_of_svg(candidate.wiring);
    const auto name = escaped(candidate.label);
    text += "<figure class=\"card wiring\"><h3>" + name + "</h3><img alt=\"Wiring of " + name + "\" src=\"" + url +
            "\">\n<figcaption><a download=\"wiring-" + escaped(candidate.folder) + ".svg\" href=\"" + url +
            "\">SVG</a></figcaption></figure>\n";
  }
  return text;
}

std::string machines_html(const report& of) {
  std::string text;
  for (const auto& machine : of.what.machines) {
    text += "<dl>";
    for (const auto& [name, value] : machine)
      text += "<div><dt>" + escaped(name) + "</dt><dd>" + escaped(value) + "</dd></div>";
    text += "</dl>\n";
  }
  return text;
}

std::string conclusion_html(const report& of) {
  auto safe = of.found;
  for (auto& entry : safe.findings) entry.text = escaped(entry.text);
  for (auto& sentence : safe.limits) sentence = escaped(sentence);
  return safe.paragraph([](const std::string& heading) { return "<strong>" + escaped(heading) + "</strong>"; });
}

}  // namespace

std::string html_of(const report& of) {
  const auto curves = curve_figures(of.what, of.summaries);
  const auto target = target_figures(of.what, of.summaries);
  const auto costs = cost_figures(of.what, of.summaries);
  json csv = json::object();
  for (const auto* figures : {&curves, &target, &costs})
    for (const auto& figure : *figures)
      if (figure.linear.has_values()) csv[figure.linear.name] = figure.csv;
  const auto section = [](const std::string& title, const std::string& note, const std::string& drawn) {
    return drawn.empty()
               ? std::string()
               : "<section><h2>" + title + "</h2>\n" + note + "<div class=\"grid\">\n" + drawn + "</div>\n</section>\n";
  };
  auto target_section =
      section("What the target took", "<p class=\"note\">The median of all repeats, with their range.</p>\n",
              figures_html(target));
  if (const auto sentence = missing_target(of); !sentence.empty())
    target_section =
        "<section><h2>What the target took</h2>\n<p class=\"note\">" + escaped(sentence) + "</p></section>\n";
  std::string missing;
  for (const auto& sentence : missing_figures(of)) missing += "<p class=\"note\">" + escaped(sentence) + "</p>\n";
  auto undrawn = undrawn_wirings(of);
  if (!undrawn.empty()) undrawn = "<p class=\"note\">" + escaped(undrawn) + "</p>\n";
  return pages::filled(
      page_sources::page_html,
      {{"page_css", std::string(pages::sources::page_css)},
       {"figure_css", pages::figure_style()},
       {"figure_js", std::string(pages::sources::figure_js)},
       {"script", std::string(page_sources::page_js)},
       {"subtitle", escaped(subtitle_of(of))},
       {"machine", escaped(machine_of(of))},
       {"conclusion", conclusion_html(of)},
       {"results", results_html(of)},
       {"curves", figures_html(curves)},
       {"missing", missing},
       {"target", target_section},
       {"costs", section("Accuracy and cost", "", figures_html(costs))},
       {"undrawn", undrawn},
       {"wirings", wirings_html(of)},
       {"settings", settings_html(of)},
       {"machines", machines_html(of)},
       {"csv", pages::script_json(files::json_text(csv))},
       {"data", pages::script_json(files::json_text(json{{"results", files::parse_json(json_of(of))}}))}});
}

}  // namespace troupe::comparing
