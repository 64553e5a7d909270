// The table of all keys of a topology file. Parsing, printing, `troupe explain`, docs/topology.md, the JSON Schema and
// error messages all derive from it. Kinds of models, data sets, losses, optimizers and exchanges have rows for
// settings of their own. It changes only when a plug-in is loaded; otherwise it is safe to use from any thread.
#pragma once

#include "troupe/files/setting.hpp"
#include "troupe/runtime/topology/topology.hpp"

#include <cstddef>
#include <filesystem>
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

/// What a table may name, such as one of the optimizers, and the settings of its own that it then has in this table.
struct named_kind {
  std::string name;                      ///< Value of the key that names it.
  std::string explanation;               ///< One line of help.
  const std::vector<setting>* settings;  ///< Never null; valid until plug-ins are loaded.
};

/// The kinds of one sort, of which a key of a section names one.
struct kinds_of_key {
  std::string key;                               ///< Such as "kind", "name" or "loss".
  std::string noun;                              ///< What messages call a kind, such as "optimizer".
  std::function<std::vector<named_kind>()> all;  ///< Returns all kinds.
  /// Whether settings of another kind are ignored instead of refused, so that a file for one kind can be used with
  /// another by --set.
  bool ignores_others{false};
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
  std::vector<kinds_of_key> kinds{};  ///< Empty if no key of the section names a kind with settings of its own.
  /// Return and set the values of the settings of the named kinds. Empty if there are no kinds.
  std::function<const setting_values&(const topology&, std::size_t)> options{};
  std::function<void(topology&, std::size_t, setting_values)> set_options{};
  bool repeated() const { return static_cast<bool>(resize); }
};

/// Returns all sections in the order in which a file is printed.
const std::vector<section>& sections();

/// Returns the section of this name, or nullptr.
const section* find_section(const std::string& name);

/// Returns the key of this name in `section`, or nullptr.
const key* find_key(const section& section, const std::string& name);

/// Returns the kind that table `index` of `section` names, or nothing if its name is unknown.
std::optional<named_kind> kind_in(const section& section, const kinds_of_key& kinds, const topology& file,
                                  std::size_t index);

/// Returns the rows of the settings that table `index` has because of the kinds that it names; valid until plug-ins are
/// loaded.
std::vector<const setting*> settings_of_kinds(const section& section, const topology& file, std::size_t index);

/// Loads plug-ins, and adds what they and programs have registered to the choices of the keys that name it. No other
/// thread may read the schema. Throws input_error, naming the file.
void load_plugins(const std::vector<std::filesystem::path>& files);

/// Returns the names of all sections, and of all keys of `section`.
std::vector<std::string> section_names();
std::vector<std::string> key_names(const section& section);

/// A key with its value as TOML.
struct line {
  std::string name, value;
  setting_type type{setting_type::text};
};

/// Returns the lines of table `index` of `section`: the keys that are set, except one that another key has replaced
/// (see exclusions()); the settings of the kinds that it names follow.
std::vector<line> lines_of(const section& section, const topology& file, std::size_t index);

/// Two keys of a section that cannot both be set. If the second is set, it determines the value of the first.
struct exclusion {
  std::string section, first, second;
};
/// Returns all pairs of keys that exclude each other.
const std::vector<exclusion>& exclusions();

}  // namespace troupe::topology
