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
  for (const auto& one : tied)
    if (one.first == entry.name) names.push_back(one.name);
  return names;
}

bool matches_any(const std::string& pattern, const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(), [&](const auto& name) { return matches(pattern, name); });
}

/// Returns the patterns to suggest: each name, its beginning up to a dot, and its end from a dot on.
std::vector<std::string> suggestions(const std::vector<std::string>& names) {
  std::vector<std::string> all = names;
  for (const auto& name : names)
    for (auto dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1)) {
      all.push_back(name.substr(0, dot) + "*");
      all.push_back(name.substr(0, dot) + ".*");
      all.push_back("*" + name.substr(dot));
      all.push_back("*" + name.substr(dot + 1));
    }
  return all;
}

}  // namespace

bool matches(std::string_view pattern, std::string_view name) {
  std::size_t p = 0, n = 0, star = std::string_view::npos, tried = 0;  // of the last *: where, and what it has taken
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
  std::vector<std::string> all;
  for (const auto& entry : layout.parameters) {
    names.push_back(names_of(entry, tied));
    all.insert(all.end(), names.back().begin(), names.back().end());
  }
  for (const auto& pattern : given.no_decay)
    if (!matches_any(pattern, all))
      refuse(file, "optimizer.no_decay",
             "optimizer.no_decay: " + topology::to_toml(pattern) + " matches no parameter of " + file.model.name +
                 "; expected a pattern that matches names such as " + topology::to_toml(all.front()) +
                 topology::did_you_mean(pattern, suggestions(all)));
  std::vector<range> found;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto& entry = layout.parameters[i];
    const auto excluded = [&](const auto& pattern) { return matches_any(pattern, names[i]); };
    const auto few_dims = static_cast<std::int64_t>(entry.shape.size()) < given.decay_min_dims;
    if (!few_dims && std::none_of(given.no_decay.begin(), given.no_decay.end(), excluded)) continue;
    const auto end = i + 1 < names.size() ? layout.parameters[i + 1].first : layout.parameter_end;
    if (!found.empty() && found.back().first + found.back().count == entry.first)
      found.back().count += end - entry.first;
    else
      found.push_back({entry.first, end - entry.first});
  }
  return found;
}

}  // namespace troupe
