#include "troupe/runtime/topology/schema.hpp"

#include "troupe/algorithms/exchange/around/codec.hpp"
#include "troupe/algorithms/exchange/registry.hpp"
#include "troupe/runtime/plugins/plugins.hpp"
#include "troupe/runtime/topology/schema_rows.hpp"

#include <algorithm>

namespace troupe::topology {
namespace {

/// Makes the key `format`. Only format 1 exists, so a file of a later one is refused rather than misread.
key format_row() {
  return {
      .row = {.name = "format",
              .type = setting_type::integer,
              .default_text = "1",
              .explanation = "Version of the file format. A file of a later version is refused rather than misread.",
              .minimum = 1,
              .maximum = 1},
      .get = [](const topology&, std::size_t) { return setting_value{std::int64_t{1}}; },
      .set = [](topology&, std::size_t, const setting_value&) {}};
}

/// Makes the key `extends`. parse.cpp removes it before keys are read; this row only documents it.
key extends_row() {
  return {.row = {.name = "extends",
                  .type = setting_type::path,
                  .default_text = "",
                  .explanation =
                      "Path of another topology file, which provides every key that this file leaves out. Sections are "
                      "merged key by key; lists are replaced as a whole. If this file names another kind of exchange, "
                      "the settings that belong only to the other file's kind are dropped. Paths in the other file are "
                      "relative to its own folder. Files may extend each other up to 16 levels deep."},
          .get = [](const topology&, std::size_t) -> std::optional<setting_value> { return {}; },
          .set = [](topology&, std::size_t, const setting_value&) {}};
}

section top_section() {
  return {"",
          "Keys before the first section.",
          {format_row(), extends_row(),
           rows::row(
               "plugins", [](auto& file, std::size_t) -> auto& { return file.plugins; }, {.type = setting_type::paths},
               "Shared libraries that register models, data sets, losses, optimizers, exchanges, encodings or "
               "graphs of your own, which this file can then name. Their code is executed even by commands that "
               "only read the file, such as check: use only files and libraries that you trust.")}};
}

/// Returns the schema, which only renew_choices() changes.
std::vector<section>& schema() {
  static std::vector<section> all = {
      top_section(),
      rows::run_section(),
      rows::model_section(),
      rows::data_section(),
      rows::augment_section(),
      rows::optimizer_section(),
      rows::workers_section(),
      rows::exchange_section(),
      rows::evaluate_section(),
      rows::checkpoint_section(),
      rows::node_section(),
      rows::transport_section(),
      rows::security_section(),
      rows::actors_section(),
      rows::link_section(),
      rows::fault_section(),
      rows::simulate_section(),
  };
  return all;
}

}  // namespace

const std::vector<section>& sections() {
  return schema();
}

const section* find_section(const std::string& name) {
  const auto found =
      std::find_if(sections().begin(), sections().end(), [&](const section& section) { return section.name == name; });
  return found == sections().end() ? nullptr : &*found;
}

const key* find_key(const section& section, const std::string& name) {
  const auto found =
      std::find_if(section.keys.begin(), section.keys.end(), [&](const key& key) { return key.row.name == name; });
  return found == section.keys.end() ? nullptr : &*found;
}

std::optional<named_kind> kind_in(const section& section, const kinds_of_key& kinds, const topology& file,
                                  std::size_t index) {
  const auto name = find_key(section, kinds.key)->get(file, index);
  const auto all = kinds.all();
  const auto found = std::find_if(all.begin(), all.end(), [&](const named_kind& kind) {
    return name && kind.name == std::get<std::string>(*name);
  });
  return found == all.end() ? std::nullopt : std::optional{*found};
}

std::vector<const setting*> settings_of_kinds(const section& section, const topology& file, std::size_t index) {
  std::vector<const setting*> settings;
  for (const kinds_of_key& kinds : section.kinds)
    if (const auto kind = kind_in(section, kinds, file, index))
      for (const setting& row : *kind->settings) settings.push_back(&row);
  return settings;
}

namespace {

/// Adds what has been registered to the choices of the keys that name it.
void renew_choices() {
  renew_exchange_kinds();
  const auto add = [](section& section, const std::string& name, const std::vector<std::string>& words) {
    for (key& key : section.keys)
      if (key.row.name == name)
        for (const std::string& word : words)
          if (std::find(key.row.choices.begin(), key.row.choices.end(), word) == key.row.choices.end())
            key.row.choices.push_back(word);
  };
  for (section& section : schema()) {
    for (const kinds_of_key& kinds : section.kinds) add(section, kinds.key, rows::names(kinds.all()));
    if (section.name == "exchange") add(section, "encoding", encoding_names());
  }
}

}  // namespace

void load_plugins(const std::vector<std::filesystem::path>& files) {
  for (const auto& file : files) plugins::load(file);
  renew_choices();
}

std::vector<std::string> section_names() {
  std::vector<std::string> result;
  for (const section& section : sections()) {
    if (!section.name.empty()) result.push_back(section.name);
  }
  return result;
}

std::vector<std::string> key_names(const section& section) {
  std::vector<std::string> result;
  for (const key& key : section.keys) result.push_back(key.row.name);
  return result;
}

std::vector<line> lines_of(const section& section, const topology& file, std::size_t index) {
  std::vector<line> lines;
  for (const key& key : section.keys) {
    const bool decided = std::any_of(exclusions().begin(), exclusions().end(), [&](const exclusion& pair) {
      return pair.section == section.name && pair.first == key.row.name &&
             find_key(section, pair.second)->get(file, index);
    });
    const auto value = key.get(file, index);
    if (value && !decided) lines.push_back({key.row.name, to_toml(*value), key.row.type});
  }
  if (!section.options) return lines;
  const auto rows = settings_of_kinds(section, file, index);
  for (const auto& [name, value] : section.options(file, index)) {
    const auto row =
        std::find_if(rows.begin(), rows.end(), [&name = name](const setting* each) { return each->name == name; });
    lines.push_back({name, to_toml(value), row == rows.end() ? setting_type::text : (*row)->type});
  }
  return lines;
}

const std::vector<exclusion>& exclusions() {
  static const std::vector<exclusion> all = {{"run", "epochs", "steps"},    {"data", "batch_size", "global_batch_size"},
                                             {"data", "label", "target"},   {"model", "name", "script"},
                                             {"model", "name", "exported"}, {"model", "script", "exported"}};
  return all;
}

}  // namespace troupe::topology
