#include "troupe/apps/console/suggestion.hpp"

#include "troupe/runtime/topology/schema.hpp"
#include "troupe/runtime/topology/suggest.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <map>

namespace troupe::apps {

namespace {

/// Returns the names of the long options of a command, without the dashes.
std::vector<std::string> options_of(const CLI::App& command) {
  std::vector<std::string> names;
  for (const auto* option : command.get_options())
    for (const auto& name : option->get_lnames()) names.push_back(name);
  return names;
}

/// Returns the keys that --set of a command takes, by their names without the section. A name that several sections
/// have is left out, except for batch_size. A section whose name is mistaken for a key stands for its most important
/// key.
std::map<std::string, std::string> keys_of(const CLI::App& command) {
  const auto evaluates = command.get_name() == "eval";
  std::map<std::string, std::string> keys;
  std::vector<std::string> ambiguous;
  for (const auto& section : topology::sections()) {
    const auto used = !evaluates || section.name == "data" || section.name == "model";
    if (section.name.empty() || section.repeated() || !used) continue;
    for (const auto& key : section.keys)
      if (!keys.emplace(key.row.name, section.name + "." + key.row.name).second) ambiguous.push_back(key.row.name);
  }
  for (const auto& name : ambiguous) keys.erase(name);
  if (evaluates) return keys;
  keys.insert_or_assign("model", "model.name");
  keys.insert_or_assign("data", "data.name");
  keys.insert_or_assign("workers", "workers.count");
  keys.insert_or_assign("batch_size", "data.batch_size");
  return keys;
}

/// Returns the key that is called `name` here or in other frameworks, or has a similar name; otherwise "".
std::string meant(const std::string& name, const std::map<std::string, std::string>& keys) {
  if (const auto found = keys.find(name); found != keys.end()) return found->second;
  std::vector<std::string> full, names;
  for (const auto& [last, key] : keys) {
    names.push_back(last);
    full.push_back(key);
  }
  if (const auto other = topology::nearest(name, full); !other.empty()) return other;
  const auto near = topology::nearest(name, names);
  return near.empty() ? "" : keys.at(near);
}

/// Returns the text as one word of a shell.
std::string as_word(const std::string& text) {
  const auto plain = text.find_first_of(" \t\"'[]{}$&|;<>()*?!`\\") == std::string::npos;
  return plain || text.find('\'') != std::string::npos ? text : "'" + text + "'";
}

}  // namespace

std::string suggestion(const CLI::App& command, const std::vector<std::string>& words) {
  const auto options = options_of(command);
  const auto has = [&](const std::string& name) {
    return std::find(options.begin(), options.end(), name) != options.end();
  };
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto option = words[i].substr(0, words[i].find('='));
    if (!option.starts_with("--") || option.size() == 2 || has(option.substr(2))) continue;
    const auto name = option.substr(2);
    if (const auto near = topology::nearest(name, options); !near.empty()) return " (did you mean --" + near + "?)";
    if (!has("set")) return {};
    const auto follows = i + 1 < words.size() && !words[i + 1].starts_with('-');
    const auto value = option.size() < words[i].size() ? words[i].substr(option.size() + 1)
                       : follows                       ? words[i + 1]
                                                       : "VALUE";
    auto key = name;
    std::replace(key.begin(), key.end(), '-', '_');
    const auto meant_key = meant(key, keys_of(command));
    return meant_key.empty() ? "" : " (did you mean --set " + as_word(meant_key + "=" + value) + "?)";
  }
  return {};
}

}  // namespace troupe::apps
