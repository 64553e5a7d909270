#include "troupe/runtime/topology/override.hpp"

#include "troupe/files/text.hpp"
#include "troupe/runtime/topology/extend.hpp"
#include "troupe/runtime/topology/schema.hpp"
#include "troupe/runtime/topology/suggest.hpp"
#include "troupe/runtime/topology/syntax.hpp"

#include <algorithm>
#include <charconv>
#include <sstream>
#include <utility>
#include <vector>

namespace troupe::topology {

namespace {

constexpr std::size_t most_override_parts = 8;  // keys need three

std::vector<std::string> split_key(const std::string& path) {
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
    const std::vector<std::string> parts = split_key(path);
    const bool gap = std::any_of(parts.begin(), parts.end(), [](const auto& part) { return part.empty(); });
    if (sign == std::string::npos || gap || parts.size() > most_override_parts) {
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
    if (parts == std::vector<std::string>{"optimizer", "name"})
      make_way_for_optimizer(holder["value"].value_or(std::string()), *table);
    table->erase(parts.back());
    put(*table, parts.back(), std::move(holder));
  }

  /// Removes from the section of an exchange what the command line replaces: settings of another kind, or another
  /// definition of the graph.
  static void make_way_in_exchange(const std::string& name, toml::node_view<toml::node> value, toml::table& section) {
    if (name == "kind") {
      make_way_for(value.value_or(std::string()), section);
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
        for (const toml::node& element : *node->as_array())
          if (const auto name = (*element.as_table())["name"].value<std::string>())
            keys.push_back(path + "." + clipped(*name) + "." + parts.back());
        if (keys.empty()) keys.push_back(path + ".0." + parts.back());
        refuse("there are several [[" + path + "]] sections; expected " + text::listed(keys));
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
    for (toml::node& element : list) {
      names.push_back((*element.as_table())["name"].value_or(std::string()));
      if (names.back() == which) return &element;
    }
    std::size_t index = 0;
    const auto [end, error] = std::from_chars(which.data(), which.data() + which.size(), index);
    if (error == std::errc{} && end == which.data() + which.size() && index < list.size()) return list.get(index);
    refuse("no " + path + " is called " + to_toml(which) + "; expected " + text::listed(text::in_quotes(names)) +
           did_you_mean(which, names));
    return nullptr;
  }

  toml::table& root_;
  mistakes& found_;
  std::uint32_t number_;
  std::string source_;
};

}  // namespace

bool load_overriding_plugins(const std::vector<std::string>& overrides) {
  bool are_listed = false;
  for (const std::string& text : overrides) {
    if (split_key(text.substr(0, text.find_first_of("= \t"))).front() != "plugins") continue;
    are_listed = true;
    try {
      const toml::table holder = toml::parse("value = " + text.substr(text.find('=') + 1));
      load_listed_plugins(holder["value"].as_array(), std::filesystem::current_path());
    } catch (const toml::parse_error&) {  // refused when it is applied
    }
  }
  return are_listed;
}

void apply_override(toml::table& root, const std::string& text, std::uint32_t number, mistakes& found) {
  overrider(root, found, number).apply(text);
}

}  // namespace troupe::topology
