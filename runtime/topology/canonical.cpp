#include "troupe/runtime/topology/canonical.hpp"

#include "troupe/files/text.hpp"
#include "troupe/runtime/topology/schema.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe::topology {
namespace {

constexpr std::size_t longest_text = 1 << 20;
constexpr std::size_t longest_word = 60;
constexpr std::size_t most_differences = 5;

/// Returns the keys and values of a canonical text, in their order.
std::vector<std::pair<std::string_view, std::string_view>> pairs_of(std::string_view text) {
  constexpr std::string_view equals = " = ";
  std::vector<std::pair<std::string_view, std::string_view>> pairs;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const std::size_t at = std::min(line.find(equals), line.size());
    pairs.emplace_back(line.substr(0, at), line.substr(std::min(at + equals.size(), line.size())));
  }
  return pairs;
}

using key_values = std::map<std::string_view, std::string_view>;

std::string value_of(const key_values& among, std::string_view key) {
  const auto found = among.find(key);
  return found == among.end() ? "unset" : text::printable(found->second);
}

std::string text_of(const topology& file, bool simulated) {
  std::string text;
  for (const section& section : sections()) {
    const std::size_t tables = section.repeated() ? section.count(file) : 1;
    for (std::size_t i = 0; i < tables; ++i) {
      std::string path = section.name.empty() ? "" : section.name + ".";
      if (section.repeated()) path += std::to_string(i) + ".";
      for (const line& line : lines_of(section, file, i)) {
        const bool own = is_path(line.type) || section.name == "security" || section.name == "actors" ||
                         (section.name == "simulate" && !simulated) ||
                         (section.name == "node" && line.name == "listen");
        if (!own) text += path + line.name + " = " + line.value + "\n";
      }
    }
  }
  return text;
}

}  // namespace

std::string canonical(const topology& file) {
  return text_of(file, false);
}

std::string canonical_of_simulation(const topology& file) {
  return text_of(file, true);
}

std::map<std::string, std::string> values_of(const std::string& text) {
  std::map<std::string, std::string> values;
  for (const auto& [key, value] : pairs_of(text)) values.emplace(key, value);
  return values;
}

std::string differences(const std::string& ours, const std::string& theirs, const sides& called) {
  if (ours == theirs) return {};
  if (theirs.size() > longest_text) return "the other text is longer than 1 MiB, so it is not a topology";
  const auto our_pairs = pairs_of(ours);
  const auto their_pairs = pairs_of(theirs);
  const key_values our_values(our_pairs.begin(), our_pairs.end());
  const key_values their_values(their_pairs.begin(), their_pairs.end());
  std::string text;
  std::size_t count = 0;
  const auto add = [&](std::string_view key) {
    if (count++ < most_differences)
      text += (text.empty() ? "" : "; ") + text::printable(key) + " is " + value_of(their_values, key) + " " +
              called.theirs + " and " + value_of(our_values, key) + " " + called.ours;
  };
  for (const auto& [key, value] : our_pairs) {
    const auto other = their_values.find(key);
    if (other == their_values.end() || other->second != value) add(key);
  }
  for (const auto& [key, value] : their_pairs)
    if (!our_values.contains(key)) add(key);
  if (count > most_differences) text += "; and " + std::to_string(count - most_differences) + " more";
  return text.empty() ? "both have the same keys and values, but not in the same order or number" : text;
}

}  // namespace troupe::topology
