// Reads the values of a topology file according to the schema.
#include "troupe/algorithms/exchange/registry.hpp"
#include "troupe/files/text.hpp"
#include "troupe/runtime/support/units.hpp"
#include "troupe/runtime/topology/extend.hpp"
#include "troupe/runtime/topology/load.hpp"
#include "troupe/runtime/topology/mistakes.hpp"
#include "troupe/runtime/topology/override.hpp"
#include "troupe/runtime/topology/paths.hpp"
#include "troupe/runtime/topology/schema.hpp"
#include "troupe/runtime/topology/suggest.hpp"
#include "troupe/runtime/topology/validate.hpp"
#include "troupe/runtime/topology/value.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

namespace troupe::topology {
namespace {

namespace fs = std::filesystem;

class reader {
 public:
  /// `folders` holds the folder of each file by number; relative paths in a file start there.
  reader(const fs::path& name, std::vector<fs::path> folders, mistakes& found)
      : found_(found), folders_(std::move(folders)) {
    file_.file = name;
  }

  void read(const toml::table& root) {
    read_plugins(root);  // the kinds that they register may be named by what follows
    for (const auto& [name, node] : root) {
      const position at = position_of(name.source());
      const std::string text(name.str());
      if (text == plugins_key) continue;
      if (const key* top = find_key(sections().front(), text)) {
        set(*top, 0, text, text, node);
      } else if (const section* section = find_section(text); section != nullptr && !text.empty()) {
        section->repeated() ? read_tables(*section, node, at) : read_section(*section, node, at);
      } else {
        refuse_top(text, node, at);
      }
    }
  }

  topology file_;
  places known_;

 private:
  static constexpr const char* plugins_key = "plugins";

  void read_plugins(const toml::table& root) {
    const toml::node* node = root.get(plugins_key);
    if (node == nullptr) return;
    set(*find_key(sections().front(), plugins_key), 0, plugins_key, plugins_key, *node);
    found_.raise();  // without plug-ins, many names would be unknown
    for (std::size_t i = 0; i < file_.plugins.size(); ++i) {
      try {
        load_plugins({file_.plugins[i]});
      } catch (const input_error& reason) {
        found_.add(known_.at(std::string(plugins_key) + "." + std::to_string(i)), reason.what());
        found_.raise();
      }
    }
  }

  void set(const key& key, std::size_t index, const std::string& place, const std::string& called,
           const toml::node& node) {
    known_.put(place, position_of(node.source()));
    if (const auto value = read_value(key.row, place, called, node)) key.set(file_, index, *value);
  }

  void read_section(const section& section, const toml::node& node, position at) {
    known_.put(section.name, at);
    const toml::table* table = node.as_table();
    if (table == nullptr) return refuse_section(section, node, at);
    read_table(section, 0, section.name, *table, at);
  }

  /// Reads a section that may appear several times; a single one may also be written [name].
  void read_tables(const section& section, const toml::node& node, position at) {
    known_.put(section.name, at);
    if (const toml::table* table = node.as_table()) {
      section.resize(file_, 1);
      return read_table(section, 0, section.name, *table, at);
    }
    const toml::array* list = node.as_array();
    if (list == nullptr || !list->is_array_of_tables()) return refuse_section(section, node, at);
    section.resize(file_, list->size());
    for (std::size_t i = 0; i < list->size(); ++i) {
      const toml::table& table = *list->get(i)->as_table();
      const std::string called = clipped(table["name"].value_or(std::to_string(i)));
      read_table(section, i, list->size() > 1 ? section.name + "." + called : section.name, table,
                 position_of(table.source()));
    }
  }

  void read_table(const section& section, std::size_t index, const std::string& called, const toml::table& table,
                  position at) {
    const std::string place = table_place(section, index);
    known_.put(place, at);
    for (const key& key : section.keys) {
      if (const toml::node* node = table.get(key.row.name)) {
        set(key, index, place + "." + key.row.name, called + "." + key.row.name, *node);
      }
    }
    if (section.name == "exchange" && !kind_in(section, section.kinds.front(), file_, index))
      return refuse_kind(section, table, at);  // the kind determines which other keys are valid
    if (section.options) read_options(section, index, place, called, table);
    refuse_others(section, index, table);
  }

  static std::string table_place(const section& section, std::size_t index) {
    return section.repeated() ? table_path(section.name, index) : section.name;
  }

  void refuse_kind(const section& section, const toml::table& table, position at) {
    const auto inner =
        std::find_if(table.begin(), table.end(), [](const auto& pair) { return pair.second.is_table(); });
    if (inner != table.end()) {
      const std::string name(inner->first.str());
      found_.add(position_of(inner->second.source()),
                 "[exchange." + clipped(name) +
                     "] is not a section; expected [[exchange]] with name = " + to_toml(clipped(name)));
    } else if (!table.contains("kind")) {
      found_.add(at, "[exchange] has no kind; expected kind = " +
                         text::listed(text::in_quotes(find_key(section, "kind")->row.choices)));
    }
  }

  /// Reads the settings of the kinds that the table names, with their defaults.
  void read_options(const section& section, std::size_t index, const std::string& place, const std::string& called,
                    const toml::table& table) {
    setting_values options;
    for (const setting* row : settings_of_kinds(section, file_, index)) {
      if (find_key(section, row->name) != nullptr || options.contains(row->name)) {
        found_.add(known_.at(place), "two keys of [" + section.name + "] are called \"" + row->name +
                                         "\", because a plug-in or program has registered a setting of this name; "
                                         "expected another name there");
      } else if (const toml::node* node = table.get(row->name)) {
        known_.put(place + "." + row->name, position_of(node->source()));
        const auto value = read_value(*row, place + "." + row->name, called + "." + row->name, *node);
        if (value) options[row->name] = *value;
      } else if (!row->default_text.empty()) {
        if (auto value = default_of(*row, place)) options[row->name] = std::move(*value);
      }
    }
    section.set_options(file_, index, std::move(options));
  }

  /// Refuses keys that are neither those of the section nor settings of the kinds that the table names.
  void refuse_others(const section& section, std::size_t index, const toml::table& table) {
    std::vector<std::string> names = key_names(section);
    for (const setting* row : settings_of_kinds(section, file_, index)) names.push_back(row->name);
    for (const auto& [name, node] : table) {
      const std::string text(name.str());
      if (std::find(names.begin(), names.end(), text) != names.end()) continue;
      const auto other = std::find_if(section.kinds.begin(), section.kinds.end(),
                                      [&](const kinds_of_key& kinds) { return !owners(kinds, text).empty(); });
      const position at = position_of(name.source());
      if (other == section.kinds.end()) {
        refuse_key(section, names, text, at);
      } else if (other->ignores_others) {
        known_.put(table_place(section, index) + "." + text, position_of(node.source()));  // for a warning
      } else {
        const auto chosen = kind_in(section, *other, file_, index);
        found_.add(at, "\"" + text + "\" is a setting of " + text::listed(owners(*other, text), "and") + ", but this " +
                           other->noun + " is of kind \"" + (chosen ? chosen->name : "") + "\"; expected " +
                           text::listed(names));
      }
    }
  }

  /// Returns the kinds that have a setting of this name.
  static std::vector<std::string> owners(const kinds_of_key& kinds, const std::string& name) {
    std::vector<std::string> names;
    for (const named_kind& kind : kinds.all())
      if (std::any_of(kind.settings->begin(), kind.settings->end(),
                      [&](const setting& row) { return row.name == name; }))
        names.push_back(kind.name);
    return names;
  }

  /// Returns the default of `row`, whose text is a TOML value or a string without quotes, or nothing after adding a
  /// mistake: of the kind, not of the file.
  std::optional<setting_value> default_of(const setting& row, const std::string& place) {
    mistakes unheard("");
    reader quiet(file_.file, folders_, unheard);
    for (const std::string& text : {row.default_text, to_toml(row.default_text)}) {
      try {
        const toml::table holder = toml::parse("value = " + text);
        if (holder.size() != 1) continue;
        if (auto value = quiet.read_value(row, "", row.name, *holder.get("value"))) return value;
      } catch (const toml::parse_error&) {  // a string without quotes
      }
    }
    found_.add(known_.at(place), "the default of the setting " + row.name + " is " + clipped(row.default_text) +
                                     ", which the kind that registers it must correct; expected " + expectation(row));
    return {};
  }

  /// Returns the value of `node` in the type of `row`, or nothing after adding a mistake.
  std::optional<setting_value> read_value(const setting& row, const std::string& place, const std::string& called,
                                          const toml::node& node) {
    if (const toml::array* array = node.as_array()) {
      if (row.type == setting_type::devices) return read_devices(row, place, called, *array);
      if (row.type == setting_type::words) return read_list<std::string>(row, place, called, *array, text);
      if (row.type == setting_type::paths) return read_paths(row, place, called, *array);
      if (row.type == setting_type::columns) return read_list<std::string>(row, place, called, *array, column);
      if (row.type == setting_type::integer_or_integers)
        return read_list<std::int64_t>(row, place, called, *array, integer);
      if (row.type == setting_type::reals || row.type == setting_type::real_or_reals)
        return read_list<double>(row, place, called, *array, real);
      if (row.type == setting_type::choice_or_matrix) return read_matrix(row, place, called, *array);
      if (row.type == setting_type::pairs) return read_pairs(row, place, called, *array);
    }
    std::optional<setting_value> value = typed(row, node);
    if (value && (row.type == setting_type::devices || row.type == setting_type::columns))
      value = std::vector<std::string>{std::get<std::string>(*value)};
    if (value && allowed(row, *value)) {
      if (row.type == setting_type::real_or_reals) return std::vector<double>{std::get<double>(*value)};
      if (row.type == setting_type::path) return resolved(std::get<std::string>(*value), node);
      return value;
    }
    found_.add(position_of(node.source()), called + " is " + shown(node) + refusal(row, called, node, value));
    return {};
  }

  template <class T>
  std::optional<setting_value> read_list(const setting& row, const std::string& place, const std::string& called,
                                         const toml::array& array,
                                         std::optional<setting_value> (*element)(const toml::node&)) {
    std::vector<T> values;
    for (const toml::node& node : array) {
      const auto value = element(node);
      if (!value || !allowed(row, std::vector<T>{std::get<T>(*value)})) {
        found_.add(position_of(node.source()),
                   called + " holds " + shown(node) + "; expected " + expectation(row) + and_finite(row, node));
        return {};
      }
      known_.put(place + "." + std::to_string(values.size()), position_of(node.source()));
      values.push_back(std::get<T>(*value));
    }
    return values;
  }

  std::optional<setting_value> read_paths(const setting& row, const std::string& place, const std::string& called,
                                          const toml::array& array) {
    auto list = read_list<std::string>(row, place, called, array, text);
    if (!list) return {};
    auto& paths = std::get<std::vector<std::string>>(*list);
    for (std::size_t i = 0; i < paths.size(); ++i) paths[i] = resolved(paths[i], *array.get(i));
    return list;
  }

  /// Reads rows of equal length with at least one number.
  std::optional<setting_value> read_matrix(const setting& row, const std::string& place, const std::string& called,
                                           const toml::array& array) {
    const auto rows = read_lists<double>(row, place, called, array, real);
    if (!rows) return {};
    if (rows->empty() || rows->front().empty()) {
      found_.add(position_of(array.source()), called + " is a matrix without numbers; expected " + expectation(row));
      return {};
    }
    for (std::size_t i = 1; i < rows->size(); ++i) {
      if ((*rows)[i].size() == rows->front().size()) continue;
      found_.add(position_of(array[i].source()), called + " has a row of " + counted(rows->front().size(), "number") +
                                                     " and a row of " + std::to_string((*rows)[i].size()) +
                                                     "; expected rows of equal length");
      return {};
    }
    return *rows;
  }

  /// Reads a list of at least one device, each of which is a single device.
  std::optional<setting_value> read_devices(const setting& row, const std::string& place, const std::string& called,
                                            const toml::array& array) {
    setting element_row = row;
    const auto list = read_list<std::string>(element_row, place, called, array, text);
    if (!list || allowed(row, *list)) return list;
    const auto& words = std::get<std::vector<std::string>>(*list);
    found_.add(position_of(array.source()),
               called + (words.empty() ? " names no device" : " combines \"auto\" or \"cuda\" with other devices") +
                   "; expected " + expectation(row));
    return {};
  }

  std::optional<setting_value> read_pairs(const setting& row, const std::string& place, const std::string& called,
                                          const toml::array& array) {
    const auto pairs = read_lists<std::string>(row, place, called, array, text);
    if (!pairs) return {};
    for (std::size_t i = 0; i < pairs->size(); ++i) {
      if ((*pairs)[i].size() == 2) continue;
      found_.add(position_of(array[i].source()), called + " holds a list of " + counted((*pairs)[i].size(), "string") +
                                                     "; expected " + expectation(row));
      return {};
    }
    return *pairs;
  }

  /// Reads a list of lists of any length.
  template <class T>
  std::optional<std::vector<std::vector<T>>> read_lists(const setting& row, const std::string& place,
                                                        const std::string& called, const toml::array& array,
                                                        std::optional<setting_value> (*element)(const toml::node&)) {
    std::vector<std::vector<T>> lists;
    for (const toml::node& node : array) {
      const toml::array* inner = node.as_array();
      if (inner == nullptr) {
        found_.add(position_of(node.source()),
                   called + " holds " + shown(node) + " instead of a list; expected " + expectation(row));
        return {};
      }
      const auto list = read_list<T>(row, place + "." + std::to_string(lists.size()), called, *inner, element);
      if (!list) return {};
      known_.put(place + "." + std::to_string(lists.size()), position_of(node.source()));
      lists.push_back(std::get<std::vector<T>>(*list));
    }
    return lists;
  }

  /// Returns the settings of kinds of exchanges that accept a word that is not a kind, such as "ring", or "".
  static std::string settings_with(const std::string& word) {
    std::vector<std::string> places;
    for (const exchange_kind& kind : exchange_kinds())
      for (const setting& row : kind.settings)
        if (std::find(row.choices.begin(), row.choices.end(), word) != row.choices.end())
          places.push_back("kind = " + to_toml(kind.name) + " with " + row.name + " = " + to_toml(word));
    return places.empty() ? "" : to_toml(word) + " is a setting of other kinds: " + text::listed(places);
  }

  /// Returns what was expected instead of `node`; `value` is its value if that has the right type.
  static std::string refusal(const setting& row, const std::string& called, const toml::node& node,
                             const std::optional<setting_value>& value) {
    const std::string expected = "; expected " + expectation(row);
    const std::string word = node.value_or(std::string());
    if (called == "format" && value) return expected + ", the only format that this build reads";
    const std::map<setting_type, std::string> lists{{setting_type::words, "[\"gradient\", …]"},
                                                    {setting_type::paths, "[\"libmine.so\"]"},
                                                    {setting_type::pairs, "[[\"w0\", \"w1\"], …]"}};
    if (const auto list = lists.find(row.type); list != lists.end() && word.starts_with('['))
      return expected + "; in a shell, put single quotes around the argument: --set '" + called + "=" + list->second +
             "'";
    if (row.name == "kind" && !word.empty()) {
      if (const auto settings = settings_with(word); !settings.empty()) return expected + "; " + settings;
    }
    if (!row.choices.empty()) {
      const auto near = did_you_mean(word, row.choices);
      return expected + near +
             (near.empty() && names_kind(called) ? "; if a plug-in registers it, list it in plugins" : "");
    }
    return expected + and_finite(row, node);
  }

  /// Returns whether a key, such as "model.name", names a kind.
  static bool names_kind(const std::string& called) {
    return std::any_of(sections().begin(), sections().end(), [&](const section& section) {
      return std::any_of(section.kinds.begin(), section.kinds.end(),
                         [&](const kinds_of_key& kinds) { return called == section.name + "." + kinds.key; });
    });
  }

  /// Returns an addition to what was expected if `node` is not finite and no maximum excludes that.
  static std::string and_finite(const setting& row, const toml::node& node) {
    const auto* number = node.as_floating_point();
    const bool takes_numbers = row.type == setting_type::integer || row.type == setting_type::real ||
                               row.type == setting_type::reals || row.type == setting_type::real_or_reals ||
                               row.type == setting_type::integer_or_integers ||
                               row.type == setting_type::choice_or_matrix;
    return number != nullptr && takes_numbers && !std::isfinite(number->get()) && !row.maximum ? ", and a finite one"
                                                                                               : "";
  }

  /// Returns `node` as a value of the row's type, without checking its range.
  static std::optional<setting_value> typed(const setting& row, const toml::node& node) {
    switch (row.type) {
      case setting_type::boolean:
        if (const auto* boolean = node.as_boolean()) return boolean->get();
        return {};
      case setting_type::integer:
      case setting_type::integer_or_integers:  // the integer; read_value() handles the list
        return integer(node);
      case setting_type::real:
      case setting_type::real_or_reals:  // the number; read_value() handles the list
        return real(node);
      case setting_type::every:
        if (const auto* integer = node.as_integer()) {
          const auto every = parse_interval(std::to_string(integer->get()));
          return every ? print_interval(*every) : std::string();
        }
        return text(node);
      case setting_type::text:
      case setting_type::choice:
      case setting_type::choice_or_matrix:  // the choice; read_value() handles the matrix
      case setting_type::path:
      case setting_type::duration:
      case setting_type::delay:
      case setting_type::rate:
      case setting_type::endpoint:
      case setting_type::devices:
        return text(node);
      case setting_type::column:
      case setting_type::columns:  // a single one; read_value() handles the list
        return column(node);
      case setting_type::words:
      case setting_type::paths:
      case setting_type::reals:
      case setting_type::pairs:
        break;  // only a list; handled by read_value()
    }
    return {};
  }

  static std::optional<setting_value> text(const toml::node& node) {
    if (const auto* value = node.as_string()) return value->get();
    return {};
  }

  static std::optional<setting_value> integer(const toml::node& node) {
    if (const auto* value = node.as_integer()) return value->get();
    return {};
  }

  static std::optional<setting_value> column(const toml::node& node) {
    if (const auto* integer = node.as_integer()) return std::to_string(integer->get());
    return text(node);
  }

  static std::optional<setting_value> real(const toml::node& node) {
    if (const auto* integer = node.as_integer()) return static_cast<double>(integer->get());
    if (const auto* value = node.as_floating_point()) return value->get();
    return {};
  }

  /// Resolves a path. Paths in a file start at its folder, those on the command line at the current folder.
  std::string resolved(const std::string& text, const toml::node& node) const {
    if (text.empty()) return text;
    const position at = position_of(node.source());
    return ((at.override_number > 0 ? fs::current_path() : folders_.at(at.file)) / text).lexically_normal().string();
  }

  // Refusals.

  void refuse_section(const section& section, const toml::node& node, position at) {
    if (node.is_array_of_tables()) {
      found_.add(at, "[[" + section.name + "]] is the form of a repeated section; expected one [" + section.name + "]");
    } else {
      const std::string first = section.needed.empty() ? section.keys.front().row.name : section.needed;
      found_.add(at, at.override_number > 0
                         ? to_toml(section.name) + " is a section; expected one of its keys, such as " + section.name +
                               "." + first + "=value"
                         : section.name + " is " + shown(node) + "; expected a section: a line [" + section.name +
                               "], followed by keys such as " + first);
    }
  }

  void refuse_top(const std::string& name, const toml::node& node, position at) {
    if (node.is_table() || node.is_array_of_tables()) {
      std::vector<std::string> bracketed;
      for (const std::string& section_name : section_names()) bracketed.push_back("[" + section_name + "]");
      const std::string near = nearest(name, section_names());
      found_.add(at, "there is no section [" + clipped(name) + "]; expected " + text::listed(bracketed) +
                         (near.empty() ? "" : " (did you mean [" + near + "]?)"));
      return;
    }
    const std::string home = home_of(name);
    if (!home.empty() && at.override_number > 0) {
      found_.add(at, "\"" + name + "\" is a key of [" + home + "]; expected " + home + "." + name + "=value");
      return;
    }
    found_.add(at, home.empty()
                       ? "there is no key \"" + clipped(name) +
                             "\" outside a section; expected format, extends, plugins, or a section such as [run]"
                       : "\"" + name + "\" is outside its section; expected it below a line [" + home + "]");
  }

  void refuse_key(const section& section, const std::vector<std::string>& names, const std::string& name, position at) {
    const std::string near = did_you_mean(name, names);
    const std::string home = near.empty() ? home_of(name) : "";
    const std::string start = "[" + section.name + "] has no key \"" + clipped(name) + "\"; expected ";
    found_.add(at, home.empty() ? start + text::listed(names) + near : start + "it below [" + home + "]");
  }

  /// Returns the section that has a key of this name, or "".
  static std::string home_of(const std::string& name) {
    for (const section& section : sections()) {
      if (!section.name.empty() && find_key(section, name)) return section.name;
    }
    return {};
  }

  mistakes& found_;
  std::vector<fs::path> folders_;
};

/// Returns the keys that are set, with the names of exchanges and nodes in place of their numbers.
given_keys given_keys_of(const topology& file, const places& known, const mistakes& found) {
  given_keys given;
  for (const auto& [path, at] : known.all()) given.places[named_path(file, path)] = found.located(at);
  return given;
}

}  // namespace

topology parse(const std::string& text, const fs::path& name, const std::vector<std::string>& overrides) {
  mistakes found(name.string());
  auto [root, folders] = read_extended(text, name, found, load_overriding_plugins(overrides));
  for (std::size_t i = 0; i < overrides.size(); ++i)
    apply_override(root, overrides[i], static_cast<std::uint32_t>(i + 1), found);
  reader reader(name, std::move(folders), found);
  reader.read(root);
  found.raise();
  complete(reader.file_, reader.known_, found);
  found.raise();
  reader.file_.given = given_keys_of(reader.file_, reader.known_, found);
  return reader.file_;
}

topology load(const fs::path& file, const std::vector<std::string>& overrides) {
  return parse(read_text(file), file, overrides);
}

}  // namespace troupe::topology
