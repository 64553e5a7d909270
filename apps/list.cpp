// troupe list: the models, losses, data sets, exchanges and optimizers that a topology file can name, with their
// settings.
#include "troupe/algorithms/exchange/kinds/catalogue.hpp"
#include "troupe/algorithms/exchange/registry.hpp"
#include "troupe/algorithms/training/optimizer_kinds.hpp"
#include "troupe/apps/commands.hpp"
#include "troupe/apps/console/page.hpp"
#include "troupe/apps/console/plugin_option.hpp"
#include "troupe/data/sets/dataset.hpp"
#include "troupe/files/error.hpp"
#include "troupe/files/json.hpp"
#include "troupe/files/text.hpp"
#include "troupe/models/networks/network.hpp"
#include "troupe/runtime/topology/reference.hpp"
#include "troupe/runtime/topology/schema.hpp"
#include "troupe/runtime/topology/suggest.hpp"
#include "troupe/runtime/topology/value.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace troupe::apps {
namespace {

using json = files::json;

struct item {
  std::string name, explanation;
  std::vector<setting> settings{};
  const exchange_kind* exchange{nullptr};  ///< The kind, if the item is an exchange, which has further facts.
};

struct group {
  std::string name;
  std::string key;  ///< The key of a topology file that takes these names.
  std::vector<item> items;
};

std::vector<group> groups() {
  const auto items_of = [](const auto& kinds) {
    std::vector<item> items;
    for (const auto& kind : kinds) items.push_back({kind.name, kind.explanation, kind.settings});
    return items;
  };
  auto exchanges = items_of(exchange_kinds());
  for (auto& exchange : exchanges) exchange.exchange = find_exchange(exchange.name);
  auto optimizers = items_of(optimizer_kinds());
  for (auto& optimizer : optimizers) {
    std::vector<setting> keys;
    for (const topology::key& key : topology::find_section("optimizer")->keys)
      if (key.row.name != "name" && goes_by(*find_optimizer(optimizer.name), key.row.name)) keys.push_back(key.row);
    optimizer.settings.insert(optimizer.settings.begin(), keys.begin(), keys.end());
  }
  return {{"models", "model.name", items_of(models::network_kinds())},
          {"losses", "model.loss", items_of(models::loss_kinds())},
          {"data", "data.name", items_of(data::dataset_kinds())},
          {"exchanges", "exchange.kind", std::move(exchanges)},
          {"optimizers", "optimizer.name", std::move(optimizers)}};
}

/// Returns all groups, or the one called `name`. Throws input_error.
std::vector<group> chosen(const std::string& name) {
  std::vector<group> all = groups();
  if (name.empty()) return all;
  std::vector<std::string> names;
  for (const group& candidate : all) {
    if (candidate.name == name) return {candidate};
    names.push_back(candidate.name);
  }
  throw input_error("unknown list \"" + name + "\"; expected " + text::listed(names) +
                    topology::did_you_mean(name, names));
}

/// Prints lines without wrapping them, each from column `indent` on.
void print_picture(const std::string& label, std::size_t indent, const std::string& picture) {
  std::string before = label + std::string(indent - std::min(indent, columns_of_text(label)), ' ');
  std::istringstream lines(picture);
  for (std::string line; std::getline(lines, line); before = std::string(indent, ' '))
    std::cout << before << line << "\n";
}

/// Returns "gradient", or "gradient, answered with parameters".
std::string carried(const exchange_kind& kind) {
  std::vector<std::string> words;
  for (const carriage& pair : kind.carries)
    words.push_back(name_of(pair.sends) +
                    (pair.answers == pair.sends ? "" : ", answered with " + name_of(pair.answers)));
  return text::listed(words);
}

/// Returns the facts about a kind, by key: one text, or one for each group of settings.
std::vector<std::pair<std::string, std::vector<std::string>>> facts_of(const exchange_kind& kind) {
  const auto facts = facts_of_kind(kind.name);
  const auto texts_of = [&](std::string exchange_variant::*column) {
    std::vector<std::string> texts;
    for (const topology::conditional_text& fact : topology::grouped(facts, column))
      texts.push_back((fact.when.empty() ? "" : fact.when + ": ") + fact.text);
    return texts;
  };
  return {{"source", {kind.source}},
          {"sends", {carried(kind)}},
          {"equation", {facts.equation}},
          {"messages", texts_of(&exchange_variant::messages)},
          {"bytes", texts_of(&exchange_variant::bytes)},
          {"synchronisation", texts_of(&exchange_variant::synchronisation)},
          {"staleness", texts_of(&exchange_variant::staleness)},
          {"equals", texts_of(&exchange_variant::equals)},
          {"shown by", {text::joined(topology::tests_of(facts), ", ")}}};
}

void print_setting(const setting& row, std::size_t before, std::size_t indent) {
  const std::string standard = row.default_text.empty() ? "" : " (default " + row.default_text + ")";
  print_wrapped(std::string(before, ' ') + row.name + "  ", indent,
                topology::expectation(row) + standard + ": " + row.explanation);
}

void print_brief(const group& group) {
  std::cout << group.name << " (" << group.key << ")\n";
  std::size_t width = 0;
  for (const item& shown : group.items) {
    width = std::max(width, shown.name.size() + 2);
    for (const setting& row : shown.settings) width = std::max(width, row.name.size() + 4);
  }
  for (const item& shown : group.items) {
    print_wrapped("  " + shown.name, width + 2, shown.explanation);
    for (const setting& row : shown.settings) print_setting(row, 4, width + 2);
  }
}

/// Prints exchanges with all facts about them.
void print_in_full(const group& group) {
  constexpr std::size_t column = 21;
  std::cout << group.name << " (" << group.key << ")\n"
            << "  n: number of members; P: bytes of parameters; messages and bytes: totals of one exchange\n";
  for (const item& shown : group.items) {
    std::cout << "\n";
    print_wrapped("  " + shown.name, column, shown.explanation);
    for (const auto& [fact, texts] : facts_of(*shown.exchange)) {
      std::string label = "    " + fact;
      for (const std::string& text : texts)
        if (!text.empty()) print_wrapped(std::exchange(label, ""), column, text);
      if (fact == "equation") print_picture("    picture", column, facts_of_kind(shown.exchange->name).picture);
    }
    if (!shown.settings.empty()) std::cout << "    settings\n";
    for (const setting& row : shown.settings) print_setting(row, 6, column);
  }
}

json to_json(const std::vector<group>& groups) {
  json result = json::object();
  for (const group& group : groups) {
    json& list = result[group.name] = json::array();
    for (const item& shown : group.items) {
      json settings = json::object();
      for (const setting& row : shown.settings) settings[row.name] = files::parse_json(topology::json_schema(row));
      json entry{{"name", shown.name}, {"explanation", shown.explanation}};
      if (shown.exchange) {
        for (const auto& [fact, texts] : facts_of(*shown.exchange))
          entry[fact == "shown by" ? "shown_by" : fact] = text::joined(texts, "; ");
        entry["picture"] = facts_of_kind(shown.exchange->name).picture;
      }
      entry["settings"] = settings;
      list.push_back(entry);
    }
  }
  return result;
}

}  // namespace

void add_list(CLI::App& app, int&) {
  CLI::App* command =
      app.add_subcommand("list", "List models, losses, data sets, exchanges and optimizers, with their settings");
  const auto name = std::make_shared<std::string>();
  const auto as_json = std::make_shared<bool>(false);
  const auto as_markdown = std::make_shared<bool>(false);
  command->add_option("WHAT", *name, "What to list: models, losses, data, exchanges or optimizers (default: all)");
  command->add_flag("--json", *as_json, "Print JSON");
  add_plugin_option(*command);
  command->add_flag("--markdown", *as_markdown)->group("");  // makes the table of docs/algorithms.md
  command->callback([name, as_json, as_markdown] {
    const std::vector<group> groups = chosen(*name);
    if (*as_markdown) {
      if (*name != "exchanges") throw input_error("--markdown is available for exchanges only");
      std::cout << topology::exchange_table();
      return;
    }
    if (*as_json) {
      std::cout << files::json_text(to_json(groups), {.indent = 2}) << "\n";
      return;
    }
    for (const group& listed : groups) {
      if (&listed != &groups.front()) std::cout << "\n";
      const bool has_more =
          std::all_of(listed.items.begin(), listed.items.end(), [](const item& shown) { return shown.exchange; });
      if (has_more && groups.size() == 1)
        print_in_full(listed);
      else
        print_brief(listed);
      if (has_more && groups.size() > 1)
        std::cout << "  \"troupe list " << listed.name << "\" describes each kind in full\n";
    }
  });
}

}  // namespace troupe::apps
