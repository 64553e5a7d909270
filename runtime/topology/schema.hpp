// The table of all keys of a topology file. Parsing, printing, `troupe explain`, docs/topology.md, the JSON Schema and
// error messages all derive from it. Each kind of exchange has its own rows for its settings (exchange_kind::settings).
// Immutable after construction; safe to use from any thread.
#pragma once

#include "troupe/algorithms/support/setting.hpp"
#include "troupe/runtime/topology/topology.hpp"

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace troupe::topology {

/// A key and the member of `topology` that it sets.
struct key {
  setting row;
  /// Returns the member's value, or nothing if it is unset. `index` is the table within a repeated section.
  std::function<std::optional<setting_value>(const topology&, std::size_t index)> get;
  /// Sets the member. The value must already have been checked against `row`.
  std::function<void(topology&, std::size_t index, const setting_value&)> set;
};

/// A section of the file, with its keys.
struct section {
  std::string name;  ///< Empty for the keys at the top of a file.
  std::string explanation;
  std::vector<key> keys;
  bool printed_if_set{false};  ///< Whether print() omits the section if all of its keys have their defaults.
  std::string needed{};        ///< Key that each table must set; empty if there is none.
  /// Return and set the number of tables of a repeated section ([[name]]). Empty for other sections.
  std::function<std::size_t(const topology&)> count{};
  std::function<void(topology&, std::size_t)> resize{};
  bool repeated() const { return static_cast<bool>(resize); }
};

/// Returns all sections in the order in which a file is printed.
const std::vector<section>& sections();

/// Returns the section of this name, or nullptr.
const section* find_section(const std::string& name);

/// Returns the key of this name in `section`, or nullptr.
const key* find_key(const section& section, const std::string& name);

/// Returns the names of all sections, and of all keys of `section`.
std::vector<std::string> section_names();
std::vector<std::string> key_names(const section& section);

/// A key with its value as TOML.
struct line {
  std::string name, value;
  setting_type type{setting_type::text};
};

/// Returns the lines of table `index` of `section`: the keys that are set, except one that another key has replaced
/// (see exclusions()); for an exchange, the settings of its kind follow.
std::vector<line> lines_of(const section& section, const topology& file, std::size_t index);

/// Two keys of a section that cannot both be set. If the second is set, it determines the value of the first.
struct exclusion {
  std::string section, first, second;
};
/// Returns all pairs of keys that exclude each other.
const std::vector<exclusion>& exclusions();

}  // namespace troupe::topology
