#include "troupe/runtime/topology/load.hpp"
#include "troupe/runtime/topology/schema.hpp"

#include <algorithm>

namespace troupe::topology {
namespace {

std::string aligned(const std::vector<line>& lines) {
  std::size_t width = 0;
  for (const line& line : lines) width = std::max(width, line.name.size());
  std::string text;
  for (const line& line : lines)
    text += line.name + std::string(width - line.name.size(), ' ') + " = " + line.value + "\n";
  return text;
}

bool has_defaults(const std::vector<line>& lines, const section& section) {
  const std::vector<line> defaults = lines_of(section, topology{}, 0);
  return std::equal(lines.begin(), lines.end(), defaults.begin(), defaults.end(),
                    [](const line& a, const line& b) { return a.name == b.name && a.value == b.value; });
}

}  // namespace

std::string print(const topology& topology) {
  std::string text;
  for (const section& section : sections()) {
    const std::size_t tables = section.repeated() ? section.count(topology) : 1;
    const std::string header = tables > 1 ? "[[" + section.name + "]]" : "[" + section.name + "]";
    for (std::size_t i = 0; i < tables; ++i) {
      const auto lines = lines_of(section, topology, i);
      if (lines.empty() || (section.printed_if_set && has_defaults(lines, section))) continue;
      if (!section.name.empty()) text += "\n" + header + "\n";
      text += aligned(lines);
    }
  }
  return text;
}

}  // namespace troupe::topology
