#include "troupe/runtime/topology/load.hpp"
#include "troupe/runtime/topology/schema.hpp"
#include "troupe/runtime/topology/value.hpp"

#include <algorithm>

namespace troupe::topology {
namespace {

using line = std::pair<std::string, std::string>;

/// Keys that are set, but for one that another has decided.
std::vector<line> lines_of(const section& section, const topology& file, std::size_t index) {
  std::vector<line> lines;
  for (const key& each : section.keys) {
    const bool decided = std::any_of(exclusions().begin(), exclusions().end(), [&](const exclusion& pair) {
      return pair.section == section.name && pair.first == each.row.name &&
             find_key(section, pair.second)->get(file, index);
    });
    if (const auto value = each.get(file, index); value && !decided) lines.emplace_back(each.row.name, to_toml(*value));
  }
  return lines;
}

std::string aligned(const std::vector<line>& lines) {
  std::size_t width = 0;
  for (const auto& [name, value] : lines) width = std::max(width, name.size());
  std::string text;
  for (const auto& [name, value] : lines) text += name + std::string(width - name.size(), ' ') + " = " + value + "\n";
  return text;
}

}  // namespace

std::string print(const topology& topology) {
  std::string text;
  for (const section& section : sections()) {
    const bool repeated = section.name == "exchange";
    for (std::size_t i = 0; i < (repeated ? topology.exchanges.size() : 1); ++i) {
      std::vector<line> lines = lines_of(section, topology, i);
      if (repeated) {
        for (const auto& [name, value] : topology.exchanges[i].options) lines.emplace_back(name, to_toml(value));
      }
      const bool list = repeated && topology.exchanges.size() > 1;
      if (!section.name.empty()) text += "\n" + (list ? "[[" + section.name + "]]" : "[" + section.name + "]") + "\n";
      text += aligned(lines);
    }
  }
  return text;
}

}  // namespace troupe::topology
