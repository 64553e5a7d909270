// Reads topology files. This is the only file that uses toml++.
#include <stdexcept>

// toml++ 3.3 fails assertions on some invalid input (such as "[=") instead of reporting it. Here, a failed assertion is
// a syntax error in every build.
#undef NDEBUG
constexpr void require_of_toml(bool condition, const char* text) {
  if (!condition) throw std::logic_error(text);
}
#define TOML_ASSERT(condition) require_of_toml(static_cast<bool>(condition), #condition)
#define TOML_MAX_NESTED_VALUES 16  // a topology does not need more, and the stack is limited

#include "troupe/actors/exchange/registry.hpp"
#include "troupe/data/utf8.hpp"
#include "troupe/runtime/topology/load.hpp"
#include "troupe/runtime/topology/mistakes.hpp"
#include "troupe/runtime/topology/schema.hpp"
#include "troupe/runtime/topology/suggest.hpp"
#include "troupe/runtime/topology/syntax.hpp"
#include "troupe/runtime/topology/validate.hpp"
#include "troupe/runtime/topology/value.hpp"

#include <toml++/toml.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>

namespace troupe::topology {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t largest_file_bytes = 1 << 20;
constexpr std::size_t most_key_parts = 8;  // of an override; keys need three
constexpr std::size_t most_extended = 16;  // levels below the file that is run
constexpr std::string_view override_prefix = "--set #", extended_prefix = "extended #";

/// Returns the number after `prefix` in the name of a source, or 0.
std::uint32_t numbered(const toml::source_region& source, std::string_view prefix) {
  std::uint32_t number = 0;
  if (source.path && source.path->starts_with(prefix))
    std::from_chars(source.path->data() + prefix.size(), source.path->data() + source.path->size(), number);
  return number;
}

position position_of(const toml::source_region& source) {
  if (const auto number = numbered(source, override_prefix); number > 0) return {.override_number = number};
  return {.file = numbered(source, extended_prefix), .line = source.begin.line, .column = source.begin.column};
}

std::string clipped(const std::string& text) {
  constexpr std::size_t most = 60;
  return data::clipped(text, most);
}

std::string counted(std::size_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

/// Returns a value in the form in which a message shows it.
std::string shown(const toml::node& node) {
  if (const auto* text = node.as_string()) return to_toml(clipped(text->get()));
  if (const auto* integer = node.as_integer()) return std::to_string(integer->get());
  if (const auto* real = node.as_floating_point()) return to_toml(real->get());
  if (const auto* boolean = node.as_boolean()) return boolean->get() ? "true" : "false";
  if (node.is_array()) return "a list";
  return node.is_table() ? "a section" : "a date or time";
}

/// Parses the text of the file with this number.
toml::table read_toml(const std::string& text, mistakes& found, std::uint32_t file) {
  const auto refuse = [&](remark why) {
    why.at.file = file;
    found.add(why.at, why.text);
    found.raise();
  };
  if (const auto why = check_text(text)) refuse(*why);
  try {
    return file == 0 ? toml::parse(text) : toml::parse(text, std::string(extended_prefix) + std::to_string(file));
  } catch (const toml::parse_error& error) {
    refuse(explain_syntax(text, position_of(error.source()), error.what()));
  } catch (const std::logic_error&) {
    refuse(odd_header(text));
  }
  return {};
}

std::string nearby_file(const fs::path& file) {
  std::vector<std::string> names;
  std::error_code ignored;
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  for (fs::directory_iterator each(folder, ignored), end; !ignored && each != end; each.increment(ignored)) {
    if (each->path().extension() == ".toml") names.push_back(each->path().stem().string());
  }
  const std::string near = nearest(file.stem().string(), names);
  return near.empty() ? "" : " (did you mean \"" + (file.parent_path() / (near + ".toml")).string() + "\"?)";
}

/// Returns the text of a file. Throws input_error.
std::string read_text(const fs::path& file) {
  const std::string name = file.string();
  std::error_code error;
  const fs::file_status status = fs::status(file, error);
  if (!fs::exists(status)) {
    if (error == std::errc::permission_denied) {
      throw input_error(name + ": a folder in this path cannot be opened; expected permission to read it");
    }
    throw input_error(name + ": no such file; expected a topology file" + nearby_file(file));
  }
  if (fs::is_directory(status)) throw input_error(name + ": this is a folder; expected a topology file");
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw input_error(name + ": the file cannot be read; expected permission to read it");
  std::string text(largest_file_bytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(stream.gcount()));
  if (stream.bad()) throw input_error(name + ": reading the file failed; expected a topology file");
  if (text.size() > largest_file_bytes)
    throw input_error(name + ": the file is larger than 1 MiB; expected a topology file");
  return text;
}

// Files that extend others. -----------------------------------------------------------------------------------------

/// Adds to `own` every key that only `base` sets.
void inherit(toml::table& own, toml::table& base) {
  for (auto&& [name, node] : base) {
    toml::node* mine = own.get(name.str());
    if (mine == nullptr)
      node.visit([&own, &name = name](auto& value) { own.insert(name, std::move(value)); });
    else if (mine->is_table() && node.is_table())
      inherit(*mine->as_table(), *node.as_table());
  }
}

/// Removes from a section of an exchange of another kind what the file says of that kind.
void make_way_for(const exchange_kind& kind, toml::table& section) {
  if (section["kind"].value_or(std::string()) == kind.name) return;
  std::vector<std::string> others;
  for (const auto& [name, node] : section) {
    const std::string text(name.str());
    const bool stays =
        (text != "sends" && find_key(*find_section("exchange"), text) != nullptr) ||
        std::any_of(kind.settings.begin(), kind.settings.end(), [&](const setting& row) { return row.name == text; });
    if (!stays && numbered(node.source(), override_prefix) == 0) others.push_back(text);
  }
  for (const std::string& name : others) section.erase(name);
}

/// Removes from `base` the keys that `own` rules out.
void make_way(const toml::table& own, toml::table& base) {
  for (const exclusion& pair : exclusions()) {
    const toml::table* mine = own[pair.section].as_table();
    toml::table* its = base[pair.section].as_table();
    if (mine == nullptr || its == nullptr) continue;
    if (mine->contains(pair.first)) its->erase(pair.second);
    if (mine->contains(pair.second)) its->erase(pair.first);
  }
  const exchange_kind* kind = find_exchange(own["exchange"]["kind"].value_or(std::string()));
  if (toml::table* its = base["exchange"].as_table(); kind != nullptr && its != nullptr) make_way_for(*kind, *its);
}

/// Reads a file and those that it extends into one table.
class gatherer {
 public:
  explicit gatherer(mistakes& found) : found_(found) {}

  /// Parses `text`, which is the content of the file `name`, and what it extends. Throws input_error.
  toml::table read(const std::string& text, const fs::path& name) {
    const auto file = static_cast<std::uint32_t>(chain_.size());
    chain_.push_back(name);
    toml::table own = read_toml(text, found_, file);
    const toml::node* said = own.get("extends");
    if (said == nullptr || !said->is_string())
      return own;  // a value that is not a string is refused like any other key
    const fs::path below = (name.parent_path() / said->value_or(std::string())).lexically_normal();
    toml::table base = read_base(below, position_of(said->source()));
    own.erase("extends");
    make_way(own, base);
    inherit(own, base);
    return own;
  }

  /// Returns the absolute folder of each file, by number; relative paths in a file start there.
  std::vector<fs::path> folders() const {
    std::vector<fs::path> all;
    for (const fs::path& file : chain_) all.push_back(fs::absolute(file).parent_path());
    return all;
  }

 private:
  toml::table read_base(const fs::path& file, position at) {
    const auto same = [&](const fs::path& other) { return real(other) == real(file); };
    if (const auto seen = std::find_if(chain_.begin(), chain_.end(), same); seen != chain_.end()) {
      std::string way;
      for (auto each = seen; each != chain_.end(); ++each) way += each->string() + " extends ";
      refuse(at, way + file.string() + " in a circle; expected a file that does not extend this one");
    }
    if (chain_.size() > most_extended)
      refuse(at, "files extend each other more than " + std::to_string(most_extended) +
                     " levels deep; expected fewer levels");
    // The file that is run may be a pipe, but nothing may ever write to a pipe that a file names.
    if (fs::is_fifo(file)) refuse(at, "extends " + file.string() + ": this is a pipe; expected a topology file");
    std::string text;
    try {
      text = read_text(file);
    } catch (const input_error& error) {
      refuse(at, std::string("extends ") + error.what());
    }
    found_.add_file(file.string());
    return read(text, file);
  }

  static fs::path real(const fs::path& file) {
    std::error_code failed;
    auto path = fs::weakly_canonical(fs::absolute(file), failed);
    return failed ? fs::absolute(file).lexically_normal() : path;
  }

  void refuse(position at, const std::string& text) {
    found_.add(at, text);
    found_.raise();
  }

  mistakes& found_;
  std::vector<fs::path> chain_;
};

// Overrides. -------------------------------------------------------------------------------------------------------

std::vector<std::string> split(const std::string& path) {
  std::vector<std::string> parts;
  std::istringstream stream(path + ".");
  for (std::string part; std::getline(stream, part, '.');) parts.push_back(part);
  return parts;
}

class overrider {
 public:
  overrider(toml::table& root, mistakes& found, std::uint32_t number)
      : root_(root), found_(found), number_(number), source_(std::string(override_prefix) + std::to_string(number)) {}

  void apply(const std::string& text) {
    const std::size_t sign = text.find('=');
    std::string path = text.substr(0, sign);
    path.erase(path.find_last_not_of(" \t") + 1);
    const std::vector<std::string> parts = split(path);
    const bool gap = std::any_of(parts.begin(), parts.end(), [](const auto& part) { return part.empty(); });
    if (sign == std::string::npos || gap || parts.size() > most_key_parts) {
      return refuse(to_toml(clipped(text)) + " is not an assignment; expected section.key=value, such as run.seed=1");
    }
    if (parts.front() == "extends")
      return refuse("extends cannot be set on the command line; expected it at the top of the file");
    try {
      set(parts, text.substr(sign + 1));
    } catch (const toml::parse_error&) {
      refuse("the value of " + clipped(text.substr(0, sign)) + " is not readable text; expected UTF-8");
    }
  }

 private:
  void set(const std::vector<std::string>& parts, const std::string& text) {
    toml::table holder = value_of(text);
    toml::table* table = walk(parts);
    if (table == nullptr) return;
    for (const exclusion& pair : exclusions()) {  // the command line takes precedence over the file
      if (parts.size() != 2 || pair.section != parts[0]) continue;
      if (parts[1] == pair.first) table->erase(pair.second);
      if (parts[1] == pair.second) table->erase(pair.first);
    }
    if (parts.front() == "exchange") make_way_in_exchange(parts.back(), holder["value"], *table);
    table->erase(parts.back());
    put(*table, parts.back(), std::move(holder));
  }

  /// Removes from the section of an exchange what the command line replaces: settings of another kind, or another
  /// definition of the graph.
  static void make_way_in_exchange(const std::string& name, toml::node_view<toml::node> value, toml::table& section) {
    if (name == "kind") {
      if (const exchange_kind* kind = find_exchange(value.value_or(std::string()))) make_way_for(*kind, section);
      return;
    }
    const bool matrix = name == "weights" && value.is_array();
    std::vector<std::string> others;
    if (name == "edges" || matrix) others = {"graph", "rows", "columns", "degree", "graph_seed"};
    if (name == "graph" || matrix) others.push_back("edges");
    if ((name == "graph" || name == "edges") && section["weights"].is_array()) others.push_back("weights");
    for (const std::string& other : others)
      if (const toml::node* node = section.get(other); node && numbered(node->source(), override_prefix) == 0)
        section.erase(other);
  }

  /// Moves the value of `holder` into `table`. Only a move keeps its position.
  void put(toml::table& table, const std::string& name, toml::table holder) const {
    holder.get("value")->visit([&](auto& value) { table.insert(key(name), std::move(value)); });
  }

  void refuse(const std::string& text) { found_.add({.override_number = number_, .line = 0, .column = 0}, text); }

  toml::key key(const std::string& name) const {
    return toml::key(name, toml::source_region{{1, 1}, {1, 1}, std::make_shared<const std::string>(source_)});
  }

  /// Returns a table that holds `text` under "value": as a TOML value, or as a string if it is not one.
  toml::table value_of(const std::string& text) const {
    try {
      if (!check_text(text)) {
        toml::table holder = toml::parse("value = " + text, std::string(source_));
        if (holder.size() == 1) return holder;
      }
    } catch (const std::exception&) {  // a string without quotes
    }
    return toml::parse("value = " + to_toml(text), std::string(source_));
  }

  /// Returns the table that holds the last of `parts`, which is created if necessary, or nullptr after refusing.
  toml::table* walk(const std::vector<std::string>& parts) {
    toml::table* table = &root_;
    std::string path;
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      path += (i > 0 ? "." : "") + parts[i];
      if (!table->contains(parts[i])) put(*table, parts[i], value_of("{}"));
      toml::node* node = table->get(parts[i]);
      if (toml::array* list = node->as_array(); list != nullptr && list->is_array_of_tables() && i + 2 < parts.size()) {
        node = find(*list, path, parts[++i]);
        if (node == nullptr) return nullptr;
        path += "." + parts[i];
      }
      table = node->as_table();
      if (table == nullptr && node->is_array_of_tables()) {
        std::vector<std::string> keys;
        for (const toml::node& each : *node->as_array())
          if (const auto name = (*each.as_table())["name"].value<std::string>())
            keys.push_back(path + "." + clipped(*name) + "." + parts.back());
        if (keys.empty()) keys.push_back(path + ".0." + parts.back());
        refuse("there are several [[" + path + "]] sections; expected " + listed(keys));
        return nullptr;
      }
      if (table == nullptr) {
        refuse(path + " has no keys of its own; expected " + path + "=value");
        return nullptr;
      }
    }
    return table;
  }

  /// Returns the table of `list` whose name or index is `which`, or nullptr after refusing.
  toml::node* find(toml::array& list, const std::string& path, const std::string& which) {
    std::vector<std::string> names;
    for (toml::node& each : list) {
      names.push_back((*each.as_table())["name"].value_or(std::string()));
      if (names.back() == which) return &each;
    }
    std::size_t index = 0;
    const auto [end, error] = std::from_chars(which.data(), which.data() + which.size(), index);
    if (error == std::errc{} && end == which.data() + which.size() && index < list.size()) return list.get(index);
    refuse("no " + path + " is called " + to_toml(which) + "; expected " + listed(in_quotes(names)) +
           did_you_mean(which, names));
    return nullptr;
  }

  toml::table& root_;
  mistakes& found_;
  std::uint32_t number_;
  std::string source_;
};

// Values by the schema. --------------------------------------------------------------------------------------------

class reader {
 public:
  /// `folders` holds the folder of each file by number; relative paths in a file start there.
  reader(const fs::path& name, std::vector<fs::path> folders, mistakes& found)
      : found_(found), folders_(std::move(folders)) {
    file_.file = name;
  }

  void read(const toml::table& root) {
    for (const auto& [name, node] : root) {
      const position at = position_of(name.source());
      const std::string text(name.str());
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
  void set(const key& key, std::size_t index, const std::string& place, const std::string& called,
           const toml::node& node) {
    known_.put(place, position_of(node.source()));
    if (const auto value = read_value(key.row, place, called, node)) key.set(file_, index, *value);
  }

  void read_section(const section& section, const toml::node& node, position at) {
    known_.put(section.name, at);
    const toml::table* table = node.as_table();
    if (table == nullptr) return refuse_section(section, node, at);
    for (const auto& [name, value] : *table) {
      const std::string text(name.str());
      const std::string path = section.name + "." + text;
      if (const key* key = find_key(section, text)) {
        set(*key, 0, path, path, value);
      } else {
        refuse_key(section, key_names(section), text, position_of(name.source()));
      }
    }
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
    const std::string place = section.name + "." + std::to_string(index);
    known_.put(place, at);
    for (const key& key : section.keys) {
      if (const toml::node* node = table.get(key.row.name)) {
        set(key, index, place + "." + key.row.name, called + "." + key.row.name, *node);
      }
    }
    if (section.name == "exchange") return read_kind(section, index, called, table, at);
    for (const auto& [name, node] : table) {
      const std::string text(name.str());
      if (find_key(section, text) == nullptr) refuse_key(section, key_names(section), text, position_of(name.source()));
    }
  }

  /// Reads the settings of the exchange's kind.
  void read_kind(const section& section, std::size_t index, const std::string& called, const toml::table& table,
                 position at) {
    const std::string place = section.name + "." + std::to_string(index);
    exchange_settings& exchange = file_.exchanges[index];
    const exchange_kind* kind = find_exchange(exchange.kind);
    if (kind == nullptr) {
      const auto inner =
          std::find_if(table.begin(), table.end(), [](const auto& pair) { return pair.second.is_table(); });
      if (inner != table.end()) {
        const std::string name(inner->first.str());
        found_.add(position_of(inner->second.source()),
                   "[exchange." + clipped(name) +
                       "] is not a section; expected [[exchange]] with name = " + to_toml(clipped(name)));
      } else if (!table.contains("kind")) {
        found_.add(
            at, "[exchange] has no kind; expected kind = " + listed(in_quotes(find_key(section, "kind")->row.choices)));
      }
      return;  // the kind determines which other keys are valid
    }
    for (const setting& row : kind->settings) {
      if (const toml::node* node = table.get(row.name)) {
        known_.put(place + "." + row.name, position_of(node->source()));
        const auto value = read_value(row, place + "." + row.name, called + "." + row.name, *node);
        if (value) exchange.options[row.name] = *value;
      } else if (!row.default_text.empty()) {
        exchange.options[row.name] = default_of(row);
      }
    }
    refuse_others(section, *kind, table);
  }

  void refuse_others(const section& section, const exchange_kind& kind, const toml::table& table) {
    std::vector<std::string> names = key_names(section);
    for (const setting& row : kind.settings) names.push_back(row.name);
    for (const auto& [name, node] : table) {
      const std::string text(name.str());
      if (std::find(names.begin(), names.end(), text) != names.end()) continue;
      std::vector<std::string> others;
      for (const exchange_kind& other : exchange_kinds()) {
        const bool has = std::any_of(other.settings.begin(), other.settings.end(),
                                     [&](const setting& row) { return row.name == text; });
        if (has) others.push_back(other.name);
      }
      const position at = position_of(name.source());
      if (others.empty()) {
        refuse_key(section, names, text, at);
      } else {
        found_.add(at, "\"" + text + "\" is a setting of " + listed(others, "and") +
                           ", but this exchange is of kind \"" + kind.name + "\"; expected " + listed(names));
      }
    }
  }

  /// Returns the default of `row`, whose text is a TOML value or a string without quotes.
  setting_value default_of(const setting& row) {
    try {
      const toml::table holder = toml::parse("value = " + row.default_text);
      if (const auto value = read_value(row, "", row.name, *holder.get("value"))) return *value;
    } catch (const toml::parse_error&) {
    }
    return row.default_text;
  }

  /// Returns the value of `node` in the type of `row`, or nothing after adding a mistake.
  std::optional<setting_value> read_value(const setting& row, const std::string& place, const std::string& called,
                                          const toml::node& node) {
    if (const toml::array* array = node.as_array()) {
      if (row.type == setting_type::devices) return read_devices(row, place, called, *array);
      if (row.type == setting_type::words) return read_list<std::string>(row, place, called, *array, text);
      if (row.type == setting_type::reals) return read_list<double>(row, place, called, *array, real);
      if (row.type == setting_type::choice_or_matrix) return read_matrix(row, place, called, *array);
      if (row.type == setting_type::pairs) return read_pairs(row, place, called, *array);
    }
    std::optional<setting_value> value = typed(row, node);
    if (value && row.type == setting_type::devices) value = std::vector<std::string>{std::get<std::string>(*value)};
    if (value && allowed(row, *value)) {
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
    for (const toml::node& each : array) {
      const auto value = element(each);
      if (!value || !allowed(row, std::vector<T>{std::get<T>(*value)})) {
        found_.add(position_of(each.source()),
                   called + " holds " + shown(each) + "; expected " + expectation(row) + and_finite(row, each));
        return {};
      }
      known_.put(place + "." + std::to_string(values.size()), position_of(each.source()));
      values.push_back(std::get<T>(*value));
    }
    return values;
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
    setting each = row;
    const auto list = read_list<std::string>(each, place, called, array, text);
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
    for (const toml::node& each : array) {
      const toml::array* inner = each.as_array();
      if (inner == nullptr) {
        found_.add(position_of(each.source()),
                   called + " holds " + shown(each) + " instead of a list; expected " + expectation(row));
        return {};
      }
      const auto list = read_list<T>(row, place + "." + std::to_string(lists.size()), called, *inner, element);
      if (!list) return {};
      known_.put(place + "." + std::to_string(lists.size()), position_of(each.source()));
      lists.push_back(std::get<std::vector<T>>(*list));
    }
    return lists;
  }

  /// Returns what was expected instead of `node`; `value` is its value if that has the right type.
  static std::string refusal(const setting& row, const std::string& called, const toml::node& node,
                             const std::optional<setting_value>& value) {
    const std::string expected = "; expected " + expectation(row);
    const std::string word = node.value_or(std::string());
    if (called == "format" && value) return expected + ", the only format that this build reads";
    const bool list = row.type == setting_type::words || row.type == setting_type::pairs;
    if (list && word.starts_with('[')) {
      return expected + "; in a shell, put single quotes around the argument: --set '" + called +
             (row.type == setting_type::words ? "=[\"gradient\", …]'" : "=[[\"w0\", \"w1\"], …]'");
    }
    if (!row.choices.empty()) return expected + did_you_mean(word, row.choices);
    return expected + and_finite(row, node);
  }

  /// Returns an addition to what was expected, if infinity is not excluded by a limit.
  static std::string and_finite(const setting& row, const toml::node& node) {
    const auto* number = node.as_floating_point();
    return number != nullptr && !std::isfinite(number->get()) && !row.maximum ? ", and a finite one" : "";
  }

  /// Returns `node` as a value of the row's type, without checking its range.
  static std::optional<setting_value> typed(const setting& row, const toml::node& node) {
    switch (row.type) {
      case setting_type::boolean:
        if (const auto* boolean = node.as_boolean()) return boolean->get();
        return {};
      case setting_type::integer:
        if (const auto* integer = node.as_integer()) return integer->get();
        return {};
      case setting_type::real:
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
      case setting_type::endpoint:
      case setting_type::devices:
        return text(node);
      case setting_type::words:
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
      for (const std::string& each : section_names()) bracketed.push_back("[" + each + "]");
      const std::string near = nearest(name, section_names());
      found_.add(at, "there is no section [" + clipped(name) + "]; expected " + listed(bracketed) +
                         (near.empty() ? "" : " (did you mean [" + near + "]?)"));
      return;
    }
    const std::string home = home_of(name);
    if (!home.empty() && at.override_number > 0) {
      found_.add(at, "\"" + name + "\" is a key of [" + home + "]; expected " + home + "." + name + "=value");
      return;
    }
    found_.add(at, home.empty() ? "there is no key \"" + clipped(name) +
                                      "\" outside a section; expected format, extends, or a section such as [run]"
                                : "\"" + name + "\" is outside its section; expected it below a line [" + home + "]");
  }

  void refuse_key(const section& section, const std::vector<std::string>& names, const std::string& name, position at) {
    const std::string near = did_you_mean(name, names);
    const std::string home = near.empty() ? home_of(name) : "";
    const std::string start = "[" + section.name + "] has no key \"" + clipped(name) + "\"; expected ";
    found_.add(at, home.empty() ? start + listed(names) + near : start + "it below [" + home + "]");
  }

  /// Returns the section that has a key of this name, or "".
  static std::string home_of(const std::string& name) {
    for (const section& each : sections()) {
      if (!each.name.empty() && find_key(each, name)) return each.name;
    }
    return {};
  }

  mistakes& found_;
  std::vector<fs::path> folders_;
};

/// Returns the keys that are set, with the names of exchanges and nodes in place of their numbers.
given_keys given_keys_of(const topology& file, const places& known, const mistakes& found) {
  std::map<std::string, std::string> named;
  for (std::size_t i = 0; i < file.exchanges.size(); ++i)
    named["exchange." + std::to_string(i)] = "exchange." + file.exchanges[i].name;
  for (std::size_t i = 0; i < file.nodes.size(); ++i) named["node." + std::to_string(i)] = "node." + file.nodes[i].name;
  given_keys given;
  for (const auto& [path, at] : known.all()) {
    const auto end = path.find('.', path.find('.') + 1);
    const auto name = named.find(path.substr(0, end));
    const auto rest = end == std::string::npos ? "" : path.substr(end);
    given.places[name == named.end() ? path : name->second + rest] = found.located(at);
  }
  return given;
}

}  // namespace

topology parse(const std::string& text, const fs::path& name, const std::vector<std::string>& overrides) {
  mistakes found(name.string());
  gatherer files(found);
  toml::table root = files.read(text, name);
  for (std::size_t i = 0; i < overrides.size(); ++i) {
    overrider(root, found, static_cast<std::uint32_t>(i + 1)).apply(overrides[i]);
  }
  reader reader(name, files.folders(), found);
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
