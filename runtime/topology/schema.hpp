// The one table of what a topology file may say. Reading, printing, `troupe explain`, docs/topology.md, the JSON Schema
// and error messages are all made from it. The settings of each kind of exchange are rows of that kind's own
// (exchange_kind::settings). Immutable once made; any thread.
#pragma once

#include "troupe/actors/support/setting.hpp"
#include "troupe/runtime/topology/topology.hpp"

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace troupe::topology {

/// A key, and the member of `topology` that it sets.
struct key {
  setting row;
  /// Returns the member's value, or nothing where it is unset. `index` counts the tables of a repeated section.
  std::function<std::optional<setting_value>(const topology&, std::size_t index)> get;
  /// Sets the member. The value has been checked against `row`.
  std::function<void(topology&, std::size_t index, const setting_value&)> set;
};

struct section {
  std::string name;  ///< Empty for the keys at the top of a file.
  std::string explanation;
  std::vector<key> keys;
  std::string needed{};  ///< The key that each table must give, or empty.
  /// Of a section that may stand several times, as [[name]]: how many tables there are, and a way to make so many.
  std::function<std::size_t(const topology&)> count{};
  std::function<void(topology&, std::size_t)> resize{};
  bool repeated() const { return static_cast<bool>(resize); }
};

/// All sections, in the order in which a file is printed.
const std::vector<section>& sections();

/// Returns the section of this name, or nullptr.
const section* find_section(const std::string& name);

/// Returns the key of this name in `section`, or nullptr.
const key* find_key(const section& section, const std::string& name);

std::vector<std::string> section_names();
std::vector<std::string> key_names(const section& section);

/// A key with its value as TOML.
struct line {
  std::string name, value;
  setting_type type{setting_type::text};
};

/// Returns what table `index` of `section` says: the keys that are set, but for one that another has decided; then, of
/// an exchange, the settings of its kind.
std::vector<line> lines_of(const section& section, const topology& file, std::size_t index);

/// Keys of one section that exclude each other. The second, where it is set, decides what the first comes to.
struct exclusion {
  std::string section, first, second;
};
const std::vector<exclusion>& exclusions();

}  // namespace troupe::topology
