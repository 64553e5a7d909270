// What can be said of a file that is not TOML, from its text: no parser's words, but what a person meant and mistyped.
#pragma once

#include "troupe/runtime/topology/mistakes.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace troupe::topology {

struct remark {
  position at;
  std::string text;
};

/// Finds a key of more than 32 parts, or nothing. Each part would be a table within a table: the parser would make
/// them all, and their destructors would exhaust the stack.
std::optional<remark> too_deep(std::string_view text);

/// Says in words that help what the parser found at `at`. `said`: its own words (toml++ 3.3).
remark explain_syntax(const std::string& text, position at, const std::string& said);

/// Finds a line that opens a section with what cannot begin a name, which toml++ 3.3 asserts instead of reporting.
remark odd_header(const std::string& text);

}  // namespace troupe::topology
