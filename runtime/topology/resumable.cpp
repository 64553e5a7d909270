#include "troupe/runtime/topology/resumable.hpp"

#include "troupe/runtime/topology/canonical.hpp"
#include "troupe/runtime/topology/error.hpp"
#include "troupe/runtime/topology/value.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <set>
#include <string_view>
#include <vector>

namespace troupe::topology {
namespace {

constexpr std::array sections_that_may_change{"node.", "transport.", "security.", "checkpoint."};
constexpr std::array keys_that_may_change{"run.timeout", "run.join_timeout", "run.max_seconds", "run.verify_every"};
/// Only where nothing that was computed before depends on the length of the run.
constexpr std::array keys_of_length{"run.epochs", "run.steps"};
constexpr std::size_t most_listed = 5;

template <class List>
bool among(const List& list, std::string_view key) {
  return std::find(list.begin(), list.end(), key) != list.end();
}

bool may_change(std::string_view key) {
  const auto begins = [&](const char* section) { return key.starts_with(section); };
  return among(keys_that_may_change, key) ||
         std::any_of(sections_that_may_change.begin(), sections_that_may_change.end(), begins);
}

bool depends_on_length(const topology& file) {
  return file.optimizer.schedule == "cosine" || file.optimizer.schedule == "polynomial";
}

/// Returns "exchange.ring.route" for "exchange.0.route" if there are several exchanges, or "exchange.route".
std::string readable(const std::string& key, const topology& file) {
  const std::string section = "exchange.";
  if (!key.starts_with(section)) return printable(key);
  const auto end = std::min(key.find('.', section.size()), key.size());
  std::size_t index = file.exchanges.size();
  std::from_chars(key.data() + section.size(), key.data() + end, index);
  if (index >= file.exchanges.size()) return printable(key);
  const auto name = file.exchanges.size() == 1 ? "" : "." + file.exchanges[index].name;
  return printable("exchange" + name + key.substr(end));
}

std::string shown(const std::map<std::string, std::string>& values, const std::string& key) {
  const auto found = values.find(key);
  return found == values.end() ? "unset" : printable(found->second);
}

}  // namespace

void check_resumable(const std::string& before, const topology& now, const std::string& out) {
  const auto old_values = values_of(before), new_values = values_of(canonical(now));
  std::set<std::string> keys;
  for (const auto* values : {&old_values, &new_values})
    for (const auto& [key, value] : *values) keys.insert(key);
  std::vector<std::string> changed;
  bool of_length = false;
  for (const auto& key : keys) {
    const auto before_it = old_values.find(key), now_it = new_values.find(key);
    const auto same =
        before_it != old_values.end() && now_it != new_values.end() && before_it->second == now_it->second;
    if (same || may_change(key)) continue;
    if (among(keys_of_length, key) && !depends_on_length(now)) continue;
    of_length = of_length || among(keys_of_length, key);
    changed.push_back(readable(key, now) + " was " + shown(old_values, key) + " and is " + shown(new_values, key));
  }
  if (changed.empty()) return;
  const auto more = changed.size() - std::min(changed.size(), most_listed);
  changed.resize(changed.size() - more);
  throw input_error(now.file.string() + ": the run in " + out + " cannot be continued with this topology: " +
                    joined(changed, "; ") + (more > 0 ? "; and " + std::to_string(more) + " more" : "") +
                    (of_length ? " (the learning rate depends on the length of the run: optimizer.schedule = " +
                                     to_toml(now.optimizer.schedule) + ")"
                               : "") +
                    "; expected the same values");
}

}  // namespace troupe::topology
