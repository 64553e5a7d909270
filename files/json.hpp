// JSON. Its parser and printer are compiled only once, in json.cpp, because they take seconds in every file that uses
// them.
#pragma once

#include <nlohmann/json.hpp>

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace troupe::files {

using json = nlohmann::ordered_json;

/// Parses a text. The result is_discarded() if the text is not JSON.
json parse_json(std::string_view text);

/// Members of objects: the number of objects and lists that they are in, and their names.
using members = std::set<std::pair<int, std::string>>;

/// Parses a text as parse_json() does, without these members: they take no memory.
json parse_json_without(const members& unneeded, std::string_view text);

/// How JSON is written.
struct json_style {
  int indent{-1};     ///< Spaces for each level; -1: all on one line.
  bool ascii{false};  ///< Whether to write all other characters as escapes.
};

/// Returns the text of a value. Bytes that are not UTF-8 are replaced.
std::string json_text(const json& value, json_style style = {});

/// Returns the number under `key` of an object, or nothing.
std::optional<double> number_at(const json& object, const char* key);

}  // namespace troupe::files
