// troupe explain KEY...: what a key of the topology file means, its type, range and default.
#include "troupe/apps/commands.hpp"
#include "troupe/apps/console/page.hpp"
#include "troupe/apps/console/plugin_option.hpp"
#include "troupe/files/error.hpp"
#include "troupe/files/json.hpp"
#include "troupe/files/text.hpp"
#include "troupe/runtime/topology/reference.hpp"
#include "troupe/runtime/topology/schema.hpp"
#include "troupe/runtime/topology/suggest.hpp"
#include "troupe/runtime/topology/value.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <iostream>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace troupe::apps {
namespace {

using json = files::json;

/// A key under the name by which it is explained.
struct entry {
  std::string section;
  std::string kind;  ///< Kind that has the key, such as "ring"; empty if all have it.
  setting row;
  std::string key_of_kind{};  ///< Key that names the kind, such as "kind"; empty if there is none.
  std::string name() const { return section.empty() ? row.name : section + "." + row.name; }
  /// Returns the name and, for a key of one kind, the kind.
  std::string label() const { return name() + (kind.empty() ? "" : " (" + kind + ")"); }
};

std::vector<entry> all_entries() {
  std::vector<entry> entries;
  for (const topology::section& section : topology::sections()) {
    for (const topology::key& key : section.keys) entries.push_back({section.name, "", key.row});
    for (const auto& kinds : section.kinds)
      for (const auto& kind : kinds.all())
        for (const setting& row : *kind.settings) entries.push_back({section.name, kind.name, row, kinds.key});
  }
  return entries;
}

/// Finds what `word` names: a section, a key with its section, or a key alone. Throws input_error.
std::vector<entry> find(const std::string& word) {
  const std::vector<entry> all = all_entries();
  std::vector<entry> found;
  const auto keep = [&](auto matches) {
    if (found.empty()) std::copy_if(all.begin(), all.end(), std::back_inserter(found), matches);
  };
  keep([&](const entry& candidate) { return candidate.name() == word; });
  keep([&](const entry& candidate) { return !candidate.section.empty() && candidate.section == word; });
  keep([&](const entry& candidate) { return candidate.row.name == word; });
  if (!found.empty()) return found;
  std::vector<std::string> names = topology::section_names();
  for (const entry& candidate : all) {
    names.push_back(candidate.name());
    names.push_back(candidate.row.name);
  }
  throw input_error("unknown key \"" + word + "\"; expected a section or section.key, such as run.seed" +
                    topology::did_you_mean(word, names));
}

/// Returns the width of lines. If standard output is not a terminal, a text stays on one line, so that programs can
/// search it.
std::size_t columns() {
  return page_columns(std::numeric_limits<std::size_t>::max());
}

/// Returns the default of a key or, if it is derived or belongs to one kind, the sentence of the explanation that
/// describes it.
std::string default_of(const setting& row) {
  if (!row.default_text.empty()) return row.default_text;
  const auto& text = row.explanation;
  const auto word = text.find("efault");
  if (word == std::string::npos) return "none";
  const auto before = text.rfind(". ", word);
  const auto begin = before == std::string::npos ? 0 : before + 2;
  const auto end = std::min(text.find(". ", word), text.size() - (text.ends_with('.') ? 1 : 0));
  return text.substr(begin, end - begin);
}

/// Returns whether the keys of two kinds are the same, word for word.
bool is_same(const setting& one, const setting& other) {
  return one.name == other.name && one.explanation == other.explanation &&
         topology::expectation(one) == topology::expectation(other) && default_of(one) == default_of(other);
}

/// Prints an entry that several `kinds` have; none for other keys.
void print_in_full(const entry& each, const std::vector<std::string>& kinds) {
  const setting& row = each.row;
  const std::string suffix =
      kinds.empty() ? "" : "  (" + each.key_of_kind + " = " + text::listed(text::in_quotes(kinds)) + ")";
  std::cout << each.name() << suffix << "\n";
  print_wrapped("", 2, row.explanation, columns());
  print_wrapped("  value", 11, topology::expectation(row), columns());
  print_wrapped("  default", 11, default_of(row), columns());
}

void print_in_brief(const std::vector<entry>& entries) {
  std::size_t width = 0;
  for (const entry& item : entries) width = std::max(width, item.label().size());
  for (const entry& item : entries) print_wrapped(item.label(), width + 2, item.row.explanation, columns());
}

json to_json(const entry& each) {
  json result = {{"key", each.name()}};
  if (!each.kind.empty()) {
    result["kind"] = each.kind;
    result["kind_key"] = each.section + "." + each.key_of_kind;
  }
  result.update(files::parse_json(topology::json_schema(each.row)));
  return result;
}

struct explain_options {
  std::vector<std::string> keys;
  bool as_json{false}, as_markdown{false}, as_schema{false};
};

/// Prints the entries `found`, which `word` names: each key once, with the kinds that share it.
void print_in_full(const std::string& word, std::vector<entry> found) {
  if (const topology::section* section = topology::find_section(word)) {
    const std::string label = "[" + section->name + "]  ";
    print_wrapped(label, label.size(), section->explanation, columns());
    std::cout << "\n";
  }
  for (bool first = true; !found.empty(); first = false) {
    const entry current = found.front();
    std::vector<std::string> kinds;
    std::erase_if(found, [&](const entry& other) {
      const bool same = other.section == current.section && other.key_of_kind == current.key_of_kind &&
                        is_same(other.row, current.row);
      if (same && !other.kind.empty()) kinds.push_back(other.kind);
      return same;
    });
    if (!first) std::cout << "\n";
    print_in_full(current, kinds);
  }
}

json to_json(const std::vector<std::string>& keys) {
  json list = json::array();
  const auto add = [&](const std::vector<entry>& entries) {
    for (const entry& item : entries) list.push_back(to_json(item));
  };
  if (keys.empty()) add(all_entries());
  for (const auto& key : keys) add(find(key));
  return list;
}

void explain(const explain_options& given) {
  if (given.as_markdown) {
    std::cout << topology::reference_page();
  } else if (given.as_schema) {
    std::cout << topology::json_schema();
  } else if (given.as_json) {
    std::cout << files::json_text(to_json(given.keys), {.indent = 2}) << "\n";
  } else if (given.keys.empty()) {
    print_in_brief(all_entries());
  } else {
    std::vector<std::vector<entry>> entries;  // found before anything is printed, because a key may be unknown
    for (const auto& key : given.keys) entries.push_back(find(key));
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) std::cout << "\n";
      print_in_full(given.keys[i], std::move(entries[i]));
    }
  }
}

}  // namespace

void add_explain(CLI::App& app, int&) {
  CLI::App* command = app.add_subcommand("explain", "Explain a section or key of the topology file");
  const auto given = std::make_shared<explain_options>();
  command->add_option("KEY", given->keys,
                      "Sections and keys to explain, such as run.seed (default: one line for each key)");
  command->add_flag("--json", given->as_json, "Print JSON with the keywords of JSON Schema");
  command->add_flag("--schema", given->as_schema, "Print the JSON Schema of the topology file, for editors");
  command->add_flag("--markdown", given->as_markdown)->group("");  // makes docs/topology.md
  add_plugin_option(*command);
  command->callback([given] { explain(*given); });
}

}  // namespace troupe::apps
