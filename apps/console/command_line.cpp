#include "troupe/apps/console/command_line.hpp"

#include "troupe/algorithms/exchange/registry.hpp"
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
  for (const auto& each : list) names.push_back(each.name);
  return names;
}

std::vector<std::string> keys() {
  auto names = topology::section_names();
  for (const auto& each : described_settings()) names.push_back(each.key);
  return names;
}

/// What the values of the options with a name are.
struct value_row {
  std::string option;
  std::string value;  ///< In help texts; empty for a positional argument, whose name says it.
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
         return std::vector<std::string>{"models", "data", "exchanges", "optimizers"};
       }},
      {"--set", "KEY=VALUE", offered::settings},
      {"--vary", "KEY=A,B,C", offered::settings},
      {"--out", "DIR", offered::folders},
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
  described_option made{.names = {},
                        .description = option.get_description(),
                        .value = "",
                        .positional = option.get_positional(),
                        .required = option.get_required(),
                        .repeatable = option.get_expected_max() > 1 ||
                                      option.get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll};
  if (made.positional) {
    made.names = {option.get_name(true, false)};
  } else {
    for (const auto& name : option.get_snames()) made.names.push_back("-" + name);
    for (const auto& name : option.get_lnames()) made.names.push_back("--" + name);
  }
  if (option.get_items_expected_max() == 0) return made;  // a flag
  made.default_text = option.get_default_str();
  const auto type = option.get_type_name();
  made.value = type.substr(0, type.find(':'));
  if (made.value == "INT" || made.value == "UINT" || made.value == "FLOAT") made.value = "NUMBER";
  made.choices = members_of(type);
  if (!made.choices.empty()) made.values = offered::words;
  if (const auto* row = row_of(option)) {
    made.values = row->values;
    made.ending = row->ending;
    if (row->choices != nullptr) made.choices = row->choices();
  }
  return made;
}

described_command describe(const CLI::App& app, const std::string& name) {
  described_command made{
      .name = name, .description = app.get_description(), .positionals = {}, .options = {}, .commands = {}};
  for (const auto* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    auto described = describe(*option);
    auto& list = described.positional ? made.positionals : made.options;
    list.push_back(std::move(described));
  }
  for (const auto* each : app.get_subcommands({}))
    made.commands.push_back(describe(*each, name.empty() ? each->get_name() : name + " " + each->get_name()));
  return made;
}

}  // namespace

void name_values(CLI::App& app) {
  for (auto* option : app.get_options())
    if (const auto* row = row_of(*option)) option->type_name(row->value);
  for (auto* each : app.get_subcommands({})) name_values(*each);
}

described_command describe_command_line(const CLI::App& app) {
  return describe(app, "");
}

std::vector<described_setting> described_settings() {
  std::vector<described_setting> all;
  const auto add = [&](const std::string& section, const setting& row) {
    const auto key = section + "." + row.name;
    auto found = std::find_if(all.begin(), all.end(), [&](const auto& each) { return each.key == key; });
    if (found == all.end()) found = all.insert(all.end(), {.key = key, .explanation = row.explanation});
    const auto choices = row.type == setting_type::choice    ? row.choices
                         : row.type == setting_type::boolean ? std::vector<std::string>{"true", "false"}
                                                             : std::vector<std::string>{};
    for (const auto& word : choices)  // several kinds of exchanges may have a key of this name
      if (std::find(found->choices.begin(), found->choices.end(), word) == found->choices.end())
        found->choices.push_back(word);
  };
  for (const auto& section : topology::sections()) {
    if (section.name.empty() || section.name == "node") continue;  // a node is set by its name
    for (const auto& key : section.keys) add(section.name, key.row);
    if (section.name != "exchange") continue;
    for (const auto& kind : exchange_kinds())
      for (const auto& row : kind.settings) add(section.name, row);
  }
  return all;
}

}  // namespace troupe::apps
