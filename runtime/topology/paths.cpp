#include "troupe/runtime/topology/paths.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

namespace troupe::topology {
namespace {

/// A path inside a repeated section.
struct table_key {
  std::string section;  ///< "exchange" or "node".
  std::string name;     ///< Name of the table.
  std::size_t tables;   ///< Number of tables of the section.
  std::string rest;     ///< What follows the number, such as ".kind".
};

template <class Tables>
std::optional<table_key> in_section(const std::string& section, const Tables& tables, const std::string& path) {
  const std::string start = section + ".";
  if (!path.starts_with(start)) return {};
  const auto end = std::min(path.find('.', start.size()), path.size());
  std::size_t index = 0;
  const auto [last, error] = std::from_chars(path.data() + start.size(), path.data() + end, index);
  if (error != std::errc{} || last != path.data() + end || index >= tables.size()) return {};
  return table_key{section, tables[index].name, tables.size(), path.substr(end)};
}

std::optional<table_key> table_key_of(const topology& file, const std::string& path) {
  if (auto found = in_section("exchange", file.exchanges, path)) return found;
  return in_section("node", file.nodes, path);
}

}  // namespace

std::string table_path(const std::string& section, std::size_t index) {
  return section + "." + std::to_string(index);
}

std::string named_path(const topology& file, const std::string& path) {
  const auto found = table_key_of(file, path);
  return found ? found->section + "." + found->name + found->rest : path;
}

std::string readable_path(const topology& file, const std::string& path) {
  const auto found = table_key_of(file, path);
  if (!found) return path;
  return found->section + (found->tables > 1 ? "." + found->name : "") + found->rest;
}

}  // namespace troupe::topology
