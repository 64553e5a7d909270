#include "troupe/runtime/plan/undecayed.hpp"

#include "troupe/runtime/plan/refuse.hpp"
#include "troupe/runtime/topology/suggest.hpp"
#include "troupe/runtime/topology/value.hpp"

#include <algorithm>
#include <cstddef>
#include <string>

namespace troupe {

namespace {

/// Returns all names of a parameter of the layout in a state dict.
std::vector<std::string> names_of(const models::flat_entry& entry, const std::vector<models::tied_name>& tied) {
  std::vector<std::string> names{entry.name};
  for (const auto& alias : tied)
    if (alias.first == entry.name) names.push_back(alias.name);
  return names;
}

bool matches_any(const std::string& pattern, const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(), [&](const auto& name) { return matches(pattern, name); });
}

/// Returns the patterns to suggest: each name, its beginning up to a dot, and its end from a dot on.
std::vector<std::string> suggestions(const std::vector<std::string>& names) {
  std::vector<std::string> patterns = names;
  for (const auto& name : names)
    for (auto dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1)) {
      patterns.push_back(name.substr(0, dot) + "*");
      patterns.push_back(name.substr(0, dot) + ".*");
      patterns.push_back("*" + name.substr(dot));
      patterns.push_back("*" + name.substr(dot + 1));
    }
  return patterns;
}

}  // namespace

bool matches(std::string_view pattern, std::string_view name) {
  // `star` is the position of the last *, and `tried` is the end of the text that this * takes.
  std::size_t p = 0, n = 0, star = std::string_view::npos, tried = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      tried = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++tried;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

std::vector<range> undecayed_of(const topology::topology& file, const models::flat_layout& layout,
                                const std::vector<models::tied_name>& tied) {
  const auto& given = file.optimizer;
  std::vector<std::vector<std::string>> names;  // by parameter
  std::vector<std::string> all_names;
  for (const auto& entry : layout.parameters) {
    names.push_back(names_of(entry, tied));
    all_names.insert(all_names.end(), names.back().begin(), names.back().end());
  }
  for (const auto& pattern : given.no_decay)
    if (!matches_any(pattern, all_names))
      refuse(file, "optimizer.no_decay",
             "optimizer.no_decay: " + topology::to_toml(pattern) + " matches no parameter of " + file.model.name +
                 "; expected a pattern that matches names such as " + topology::to_toml(all_names.front()) +
                 topology::did_you_mean(pattern, suggestions(all_names)));
  std::vector<range> undecayed;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto& entry = layout.parameters[i];
    const auto excluded = [&](const auto& pattern) { return matches_any(pattern, names[i]); };
    const auto few_dims = static_cast<std::int64_t>(entry.shape.size()) < given.decay_min_dims;
    if (!few_dims && std::none_of(given.no_decay.begin(), given.no_decay.end(), excluded)) continue;
    const auto end = i + 1 < names.size() ? layout.parameters[i + 1].first : layout.parameter_end;
    if (!undecayed.empty() && undecayed.back().first + undecayed.back().count == entry.first)
      undecayed.back().count += end - entry.first;
    else
      undecayed.push_back({entry.first, end - entry.first});
  }
  return undecayed;
}

}  // namespace troupe
