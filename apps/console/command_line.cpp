#include "troupe/apps/console/command_line.hpp"

#include "troupe/data/sets/dataset.hpp"
#include "troupe/models/networks/network.hpp"
#include "troupe/runtime/topology/schema.hpp"
#include "troupe/tools/fetch/fetch.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <utility>

namespace troupe::apps {

namespace {

template <class List>
std::vector<std::string> names_of(const List& list) {
  std::vector<std::string> names;
  for (const auto& item : list) names.push_back(item.name);
  return names;
}

std::vector<std::string> keys() {
  auto names = topology::section_names();
  for (const auto& row : described_settings()) names.push_back(row.key);
  return names;
}

/// The values of all options with a given name.
struct value_row {
  std::string option;
  std::string value;  ///< Name of the value in help texts; empty for a positional argument, which has a name.
  offered values{offered::nothing};
  std::string ending{};
  std::vector<std::string> (*choices)(){nullptr};
};

const std::vector<value_row>& value_rows() {
  static const std::vector<value_row> rows{
      {"FILE", "", offered::files, ".toml"},
      {"DIR", "", offered::folders},
      {"WEIGHTS", "", offered::files, ".safetensors"},
      {"KEY", "", offered::words, "", keys},
      {"NAME", "", offered::words, "", [] { return names_of(fetch::sources()); }},
      {"WHAT", "", offered::words, "",
       [] {
         return std::vector<std::string>{"models", "losses", "data", "exchanges", "optimizers"};
       }},
      {"--set", "KEY=VALUE", offered::settings},
      {"--vary", "KEY=A,B,C", offered::settings},
      {"--out", "DIR", offered::folders},
      {"--plugin", "FILE", offered::files, ".so"},
      {"--resume", "DIR", offered::folders},
      {"--dir", "DIR", offered::folders},
      {"--output", "FILE", offered::files},
      {"--csv", "FILE", offered::files},
      {"--epoch-log", "FILE", offered::files},
      {"--model", "NAME", offered::words, "", [] { return names_of(models::network_kinds()); }},
      {"--data", "NAME", offered::words, "", [] { return names_of(data::dataset_kinds()); }},
      {"--against", "DIR", offered::folders},
      {"--dashboard", "[ADDRESS]"},
      {"--name", "NAME"},
      {"--node", "NAME"},
  };
  return rows;
}

const value_row* row_of(const CLI::Option& option) {
  const auto is_named = [&](const auto& row) { return option.check_name(row.option); };
  const auto found = std::find_if(value_rows().begin(), value_rows().end(), is_named);
  return found == value_rows().end() ? nullptr : &*found;
}

/// Returns the words of the set "{a,b}" in the name of a type, or nothing.
std::vector<std::string> members_of(const std::string& type) {
  const auto begin = type.find('{'), end = type.rfind('}');
  if (begin == std::string::npos || end == std::string::npos) return {};
  return CLI::detail::split(type.substr(begin + 1, end - begin - 1), ',');
}

described_option describe(const CLI::Option& option) {
  described_option result{.names = {},
                          .description = option.get_description(),
                          .value = "",
                          .positional = option.get_positional(),
                          .required = option.get_required(),
                          .repeatable = option.get_expected_max() > 1 ||
                                        option.get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll};
  if (result.positional) {
    result.names = {option.get_name(true, false)};
  } else {
    for (const auto& name : option.get_snames()) result.names.push_back("-" + name);
    for (const auto& name : option.get_lnames()) result.names.push_back("--" + name);
  }
  if (option.get_items_expected_max() == 0) return result;  // a flag
  result.default_text = option.get_default_str();
  const auto type = option.get_type_name();
  result.value = type.substr(0, type.find(':'));
  if (result.value == "INT" || result.value == "UINT" || result.value == "FLOAT") result.value = "NUMBER";
  result.choices = members_of(type);
  if (!result.choices.empty()) result.values = offered::words;
  if (const auto* row = row_of(option)) {
    result.values = row->values;
    result.ending = row->ending;
    if (row->choices != nullptr) result.choices = row->choices();
  }
  return result;
}

described_command describe(const CLI::App& app, const std::string& name) {
  described_command result{
      .name = name, .description = app.get_description(), .positionals = {}, .options = {}, .commands = {}};
  for (const auto* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    auto described = describe(*option);
    auto& list = described.positional ? result.positionals : result.options;
    list.push_back(std::move(described));
  }
  for (const auto* subcommand : app.get_subcommands({}))
    result.commands.push_back(
        describe(*subcommand, name.empty() ? subcommand->get_name() : name + " " + subcommand->get_name()));
  return result;
}

}  // namespace

void name_values(CLI::App& app) {
  for (auto* option : app.get_options())
    if (const auto* row = row_of(*option)) option->type_name(row->value);
  for (auto* subcommand : app.get_subcommands({})) name_values(*subcommand);
}

described_command describe_command_line(const CLI::App& app) {
  return describe(app, "");
}

std::vector<described_setting> described_settings() {
  std::vector<described_setting> all;
  const auto add = [&](const std::string& section, const setting& row) {
    const auto key = section + "." + row.name;
    auto entry = std::find_if(all.begin(), all.end(), [&](const auto& other) { return other.key == key; });
    if (entry == all.end()) entry = all.insert(all.end(), {.key = key, .explanation = row.explanation});
    const auto choices = row.type == setting_type::choice    ? row.choices
                         : row.type == setting_type::boolean ? std::vector<std::string>{"true", "false"}
                                                             : std::vector<std::string>{};
    for (const auto& word : choices)  // several kinds may have a key of this name
      if (std::find(entry->choices.begin(), entry->choices.end(), word) == entry->choices.end())
        entry->choices.push_back(word);
  };
  for (const auto& section : topology::sections()) {
    if (section.name.empty() || section.name == "node") continue;  // a node is set by its name
    for (const auto& key : section.keys) add(section.name, key.row);
    for (const auto& kinds : section.kinds)
      for (const auto& kind : kinds.all())
        for (const auto& row : *kind.settings) add(section.name, row);
  }
  return all;
}

}  // namespace troupe::apps
