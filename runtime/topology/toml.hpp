// Includes the TOML parser (toml++) and finds the sources of its values. Only code that reads topology files uses it.
#pragma once

#include "troupe/data/formats/utf8.hpp"
#include "troupe/runtime/topology/mistakes.hpp"
#include "troupe/runtime/topology/value.hpp"

#include <charconv>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

// toml++ 3.3 fails assertions on some invalid input (such as "[=") instead of reporting it. Here, a failed assertion is
// a syntax error in every build.
#undef NDEBUG
constexpr void require_of_toml(bool condition, const char* text) {
  if (!condition) throw std::logic_error(text);
}
#define TOML_ASSERT(condition) require_of_toml(static_cast<bool>(condition), #condition)
#define TOML_MAX_NESTED_VALUES 16  // a topology does not need more, and the stack is limited
#include <toml++/toml.h>

namespace troupe::topology {

/// Beginnings of the names of sources: the n-th override, and the n-th file that the topology file extends.
constexpr std::string_view override_prefix = "--set #", extended_prefix = "extended #";

/// Returns the number after `prefix` in the name of a source, or 0.
inline std::uint32_t numbered(const toml::source_region& source, std::string_view prefix) {
  std::uint32_t number = 0;
  if (source.path && source.path->starts_with(prefix))
    std::from_chars(source.path->data() + prefix.size(), source.path->data() + source.path->size(), number);
  return number;
}

inline position position_of(const toml::source_region& source) {
  if (const auto number = numbered(source, override_prefix); number > 0) return {.override_number = number};
  return {.file = numbered(source, extended_prefix), .line = source.begin.line, .column = source.begin.column};
}

/// Returns a text that is short enough for a message.
inline std::string clipped(const std::string& text) {
  constexpr std::size_t most = 60;
  return data::clipped(text, most);
}

/// Returns a value in the form in which a message shows it.
inline std::string shown(const toml::node& node) {
  if (const auto* text = node.as_string()) return to_toml(clipped(text->get()));
  if (const auto* integer = node.as_integer()) return std::to_string(integer->get());
  if (const auto* real = node.as_floating_point()) return to_toml(real->get());
  if (const auto* boolean = node.as_boolean()) return boolean->get() ? "true" : "false";
  if (node.is_array()) return "a list";
  return node.is_table() ? "a section" : "a date or time";
}

}  // namespace troupe::topology
