// troupe list: what a topology file can name, with the settings of each.
#include "troupe/actors/exchange/registry.hpp"
#include "troupe/apps/commands.hpp"
#include "troupe/data/dataset.hpp"
#include "troupe/models/network.hpp"
#include "troupe/runtime/topology/error.hpp"
#include "troupe/runtime/topology/reference.hpp"
#include "troupe/runtime/topology/schema.hpp"
#include "troupe/runtime/topology/suggest.hpp"
#include "troupe/runtime/topology/value.hpp"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

namespace troupe::apps {
namespace {

using json = nlohmann::ordered_json;

struct item {
  std::string name, explanation;
  std::vector<setting> settings{};
};

struct shelf {
  std::string name;
  std::string key;  ///< What takes these names.
  std::vector<item> items;
};

std::vector<shelf> shelves() {
  std::vector<shelf> all = {{"models", "model.name", {}},
                            {"data", "data.name", {}},
                            {"exchanges", "exchange.kind", {}},
                            {"optimizers", "optimizer.name", {}}};
  for (const models::network_kind& kind : models::network_kinds()) {
    all[0].items.push_back({kind.name, kind.explanation});
  }
  for (const data::dataset_kind& kind : data::dataset_kinds()) all[1].items.push_back({kind.name, kind.explanation});
  for (const exchange_kind& kind : exchange_kinds()) {
    all[2].items.push_back({kind.name, kind.explanation + " Source: " + kind.source + ".", kind.settings});
  }
  const topology::section& optimizer = *topology::find_section("optimizer");
  std::vector<setting> settings;
  for (const topology::key& key : optimizer.keys) {
    if (key.row.name != "name") settings.push_back(key.row);
  }
  for (const std::string& name : topology::find_key(optimizer, "name")->row.choices) {
    all[3].items.push_back({name, optimizer.explanation, settings});
  }
  return all;
}

/// Returns all shelves, or the one called `name`. Throws input_error.
std::vector<shelf> chosen(const std::string& name) {
  std::vector<shelf> all = shelves();
  if (name.empty()) return all;
  std::vector<std::string> names;
  for (const shelf& each : all) {
    if (each.name == name) return {each};
    names.push_back(each.name);
  }
  throw input_error("there is no list of \"" + name + "\"; expected " + topology::listed(names) +
                    topology::did_you_mean(name, names));
}

void print(const shelf& shelf) {
  std::cout << shelf.name << " (" << shelf.key << ")\n";
  std::size_t width = 0;
  for (const item& each : shelf.items) {
    width = std::max(width, each.name.size() + 2);
    for (const setting& row : each.settings) width = std::max(width, row.name.size() + 4);
  }
  const auto column = [&](const std::string& text) { return text + std::string(width + 2 - text.size(), ' '); };
  for (const item& each : shelf.items) {
    std::cout << column("  " + each.name) << each.explanation << "\n";
    for (const setting& row : each.settings) {
      const std::string standard = row.default_text.empty() ? "" : " (default " + row.default_text + ")";
      std::cout << column("    " + row.name) << topology::expectation(row) << standard << ": " << row.explanation
                << "\n";
    }
  }
}

json to_json(const std::vector<shelf>& shelves) {
  json result = json::object();
  for (const shelf& shelf : shelves) {
    json& list = result[shelf.name] = json::array();
    for (const item& each : shelf.items) {
      json settings = json::object();
      for (const setting& row : each.settings) settings[row.name] = json::parse(topology::json_schema(row));
      list.push_back({{"name", each.name}, {"explanation", each.explanation}, {"settings", settings}});
    }
  }
  return result;
}

}  // namespace

void add_list(CLI::App& app, int&) {
  CLI::App* command =
      app.add_subcommand("list", "List models, data sets, exchanges and optimizers, with their settings");
  const auto name = std::make_shared<std::string>();
  const auto as_json = std::make_shared<bool>(false);
  command->add_option("WHAT", *name, "models, data, exchanges or optimizers; without it, all of them");
  command->add_flag("--json", *as_json, "As JSON");
  command->callback([name, as_json] {
    const std::vector<shelf> shelves = chosen(*name);
    if (*as_json) {
      std::cout << to_json(shelves).dump(2) << "\n";
      return;
    }
    for (const shelf& each : shelves) {
      if (&each != &shelves.front()) std::cout << "\n";
      print(each);
    }
  });
}

}  // namespace troupe::apps
