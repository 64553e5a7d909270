// Makes compare.md and the pictures that it shows.
#include "troupe/tools/comparing/figures.hpp"
#include "troupe/tools/comparing/report.hpp"
#include "troupe/tools/comparing/words.hpp"

#include <utility>

namespace troupe::comparing {

namespace {

std::string row_of(const std::vector<std::string>& cells) {
  std::string text = "|";
  for (const auto& cell : cells) text += " " + cell + " |";
  return text + "\n";
}

std::string header_of(const std::vector<std::string>& cells) {
  std::string text = row_of(cells) + "|";
  for (std::size_t i = 0; i < cells.size(); ++i) text += "---|";
  return text + "\n";
}

std::vector<figure_pair> all_figures(const report& of) {
  std::vector<figure_pair> figures;
  for (auto* make : {curve_figures, target_figures, cost_figures})
    for (auto& figure : make(of.what, of.summaries))
      if (figure.linear.has_values()) figures.push_back(std::move(figure));
  return figures;
}

/// Returns the form of a figure that readers see first.
pages::figure usual_form(const figure_pair& of) {
  return form_of(of, of.is_wide, false);
}

std::string results(const report& of) {
  const auto table = table_of(of);
  std::string text = header_of(table.header);
  for (const auto& row : table.rows) {
    std::vector<std::string> cells;
    for (const auto& cell : row) cells.push_back(plain(cell.text));
    text += row_of(cells);
  }
  return text;
}

std::string settings(const report& of) {
  const auto differing = differing_settings(of.what);
  if (differing.empty()) return "The variants have the same settings.\n";
  std::vector<std::string> header{"setting"};
  for (const auto& candidate : of.what.variants) header.push_back(plain(candidate.label));
  std::string text = header_of(header);
  for (const auto& [key, values, shown] : differing) {
    std::vector<std::string> cells{plain(shown)};
    for (const auto& value : values) cells.push_back(value.empty() ? "–" : plain(value));
    text += row_of(cells);
  }
  return text;
}

std::string machines(const report& of) {
  std::string text;
  for (const auto& machine : of.what.machines) {
    if (!text.empty()) text += "\n";
    for (const auto& [name, value] : machine) text += "- " + plain(name) + ": " + plain(value) + "\n";
  }
  return text;
}

}  // namespace

std::vector<picture_file> pictures_of(const report& of) {
  std::vector<picture_file> files;
  const auto add = [&](const pages::figure& form) {
    files.push_back({std::filesystem::path("pictures") / (form.name + ".svg"), pages::standalone(pages::draw(form))});
  };
  for (const auto& figure : all_figures(of)) {
    add(figure.linear);
    add(figure.logarithmic);
    if (const auto usual = usual_form(figure);
        usual.name != figure.linear.name && usual.name != figure.logarithmic.name)
      add(usual);
  }
  return files;
}

std::string markdown_of(const report& of) {
  std::string text = "# Comparison\n\n" + plain(subtitle_of(of)) + ".\n\n" + plain(machine_of(of)) + ".\n\n";
  auto paragraph = of.found;
  for (auto& entry : paragraph.findings) entry.text = plain(entry.text);
  for (auto& sentence : paragraph.limits) sentence = plain(sentence);
  text += paragraph.paragraph([](const std::string& heading) { return "**" + plain(heading) + "**"; }) + "\n\n";
  text += "## Results\n\nThe median of all repeats and, in brackets, their range.\n\n" + results(of);
  text += "\nAll numbers: [compare.csv](compare.csv) and [curves.csv](curves.csv).\n\n## Figures\n\n";
  for (const auto& figure : all_figures(of)) {
    const auto usual = usual_form(figure);
    text += "![" + plain(usual.title + " against " + usual.x.title) + "](pictures/" + usual.name + ".svg)\n(";
    if (usual.name != figure.linear.name) text += "[linear](pictures/" + figure.linear.name + ".svg)";
    if (usual.name != figure.linear.name && usual.name != figure.logarithmic.name) text += ", ";
    if (usual.name != figure.logarithmic.name) text += "[logarithmic](pictures/" + figure.logarithmic.name + ".svg)";
    text += ")\n\n";
  }
  for (const auto& sentence : missing_figures(of)) text += plain(sentence) + "\n\n";
  if (const auto sentence = missing_target(of); !sentence.empty()) text += plain(sentence) + "\n\n";
  text += "## Wirings\n\n";
  for (const auto& candidate : of.what.variants)
    if (!is_summary(candidate))
      text += "### " + plain(candidate.label) + "\n\n![Wiring of " + plain(candidate.label) + "](wirings/" +
              candidate.folder + ".svg)\n\n";
  if (const auto sentence = undrawn_wirings(of); !sentence.empty()) text += plain(sentence) + "\n\n";
  text += "## Settings that differ\n\n" + settings(of);
  text += "\n## Machine and versions\n\n" + machines(of);
  return text;
}

}  // namespace troupe::comparing
