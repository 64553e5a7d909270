#include "troupe/runtime/topology/resumable.hpp"

#include "troupe/algorithms/exchange/registry.hpp"
#include "troupe/files/error.hpp"
#include "troupe/files/text.hpp"
#include "troupe/runtime/topology/canonical.hpp"
#include "troupe/runtime/topology/paths.hpp"
#include "troupe/runtime/topology/schema.hpp"
#include "troupe/runtime/topology/value.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <vector>

namespace troupe::topology {
namespace {

constexpr std::array sections_of_placement{"node.", "transport.", "security.", "actors."};
constexpr std::array keys_that_may_change{"run.timeout", "run.silence", "run.join_timeout", "run.max_seconds",
                                          "run.verify_every"};
/// Keys that change how the run trains or when it stops early. Intervals between evaluations or exchanges do so, too.
constexpr std::array keys_of_training{"optimizer.lr", "evaluate.target_accuracy", "evaluate.target_hold",
                                      "evaluate.patience"};
/// Keys that may change only if nothing that was computed before depends on the length of the run.
constexpr std::array keys_of_length{"run.epochs", "run.steps"};
constexpr std::size_t most_changes = 5;

template <class List>
bool among(const List& list, std::string_view key) {
  return std::find(list.begin(), list.end(), key) != list.end();
}

bool is_of_placement(std::string_view key) {
  return std::any_of(sections_of_placement.begin(), sections_of_placement.end(),
                     [&](const char* section) { return key.starts_with(section); });
}

bool is_of_training(std::string_view key) {
  const auto is_interval = key.ends_with(".every") && (key.starts_with("evaluate.") || key.starts_with("exchange."));
  return is_interval || among(keys_of_training, key);
}

bool may_change(std::string_view key) {
  return among(keys_that_may_change, key) || key.starts_with("checkpoint.") || is_of_training(key);
}

/// Returns what makes steps depend on the length of the run, or "".
std::string reason_of_length(const topology& file) {
  if (file.optimizer.schedule == "cosine" || file.optimizer.schedule == "polynomial")
    return "the learning rate depends on the length of the run: optimizer.schedule = " +
           to_toml(file.optimizer.schedule);
  for (const exchange_settings& exchange : file.exchanges)
    if (exchange.growth) return "the last exchange of " + to_toml(exchange.name) + " ends the run: growth";
  return "";
}

using values = std::map<std::string, std::string>;

const section* section_of(const std::string& path) {
  return find_section(path.substr(0, path.find('.')));
}

/// Returns the row that describes a key, such as "run.seed" or "exchange.0.route", or nullptr.
const setting* row_of(const topology& file, const std::string& path) {
  const section* section = section_of(path);
  if (section == nullptr) return nullptr;
  const std::string name = path.substr(path.rfind('.') + 1);
  if (const key* key = find_key(*section, name)) return &key->row;
  const std::size_t tables = section->repeated() ? section->count(file) : 1;
  for (std::size_t i = 0; i < tables; ++i) {
    if (path != (section->repeated() ? table_path(section->name, i) : section->name) + "." + name) continue;
    for (const setting* row : settings_of_kinds(*section, file, i))
      if (row->name == name) return row;
  }
  return nullptr;
}

/// Returns whether the value of a key is its default.
bool is_default(const topology& file, const std::string& path, const std::string& value) {
  const setting* row = row_of(file, path);
  return row != nullptr && (value == row->default_text || value == to_toml(row->default_text));
}

/// Returns whether a text that does not contain `path` contains its section, or the same table of a repeated section.
bool has_section_of(const values& text, const std::string& path) {
  const std::string start = path.substr(0, path.rfind('.') + 1);
  const auto next = text.lower_bound(start);
  return next != text.end() && next->first.starts_with(start);
}

/// Compares the settings of a run with those with which it is continued.
class comparison {
 public:
  comparison(const std::string& before, const topology& now)
      : now_(now), old_values_(values_of(before)), new_values_(values_of(canonical(now))) {}

  /// Returns all keys that have different values.
  std::vector<std::string> different_keys() const {
    std::set<std::string> keys;
    for (const auto* side : {&old_values_, &new_values_})
      for (const auto& [key, value] : *side) keys.insert(key);
    std::vector<std::string> different;
    std::copy_if(keys.begin(), keys.end(), std::back_inserter(different), [&](const auto& key) { return !same(key); });
    return different;
  }

  /// Returns whether no link of either topology delays messages.
  bool delay_nothing() const { return !delays(old_values_) && !delays(new_values_); }

  /// Returns both values of a key.
  changed_setting changed(const std::string& key) const {
    return {.key = text::printable(readable_path(now_, key)),
            .before = shown(old_values_, key),
            .now = shown(new_values_, key),
            .of_training = is_of_training(key)};
  }

 private:
  static bool delays(const values& among) {
    return std::any_of(among.begin(), among.end(), [&](const auto& entry) {
      if (!entry.first.starts_with("link.")) return false;
      const auto real = among.find(entry.first.substr(0, entry.first.rfind('.')) + ".real");
      return real == among.end() || real->second != "true";
    });
  }

  /// Returns whether a key has the same value in both topologies. A key that one of them lacks, because another version
  /// of Troupe wrote it, has its default there. Defaults may depend on other keys, so a key that the old topology lacks
  /// and the new file does not set counts as the same.
  bool same(const std::string& key) const {
    const auto before = old_values_.find(key), now = new_values_.find(key);
    if (before != old_values_.end() && now != new_values_.end()) return before->second == now->second;
    if (now == new_values_.end()) return is_default(now_, key, before->second);
    const section* section = section_of(key);
    if (section != nullptr && section->repeated() && !has_section_of(old_values_, key)) return false;
    return is_default(now_, key, now->second) || !now_.given.has(named_path(now_, key));
  }

  static std::string shown(const values& among, const std::string& key) {
    const auto found = among.find(key);
    return found == among.end() ? "unset" : text::printable(found->second);
  }

  const topology& now_;
  values old_values_, new_values_;
};

}  // namespace

std::string described(const changed_setting& change) {
  return change.key + " was " + change.before + " and is " + change.now;
}

std::vector<changed_setting> check_resumable(const std::string& before, const topology& now, const std::string& out) {
  const comparison both(before, now);
  std::vector<changed_setting> allowed;
  std::vector<std::string> changed;
  bool of_length = false;
  for (const auto& key : both.different_keys()) {
    if (key.starts_with("link.") && both.delay_nothing()) continue;
    if (is_of_placement(key)) continue;
    if (may_change(key) || (among(keys_of_length, key) && reason_of_length(now).empty())) {
      allowed.push_back(both.changed(key));
      continue;
    }
    of_length = of_length || among(keys_of_length, key);
    changed.push_back(described(both.changed(key)));
  }
  if (changed.empty()) return allowed;
  const auto more = changed.size() - std::min(changed.size(), most_changes);
  changed.resize(changed.size() - more);
  throw input_error(now.file.string() + ": the run in " + out + " cannot be continued with this topology: " +
                    text::joined(changed, "; ") + (more > 0 ? "; and " + std::to_string(more) + " more" : "") +
                    (of_length ? " (" + reason_of_length(now) + ")" : "") + "; expected the same values");
}

}  // namespace troupe::topology
