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

/// Finds what the parser (toml++ 3.3) must not see, or nothing: bytes that are not UTF-8; letters beyond ASCII outside
/// of strings and comments, on which its behaviour is undefined; keys of more than 32 parts, each of which would be a
/// table within a table, whose destructors would exhaust the stack.
std::optional<remark> check_text(std::string_view text);

/// Says in words that help what the parser found at `at`. `said`: its own words (toml++ 3.3).
remark explain_syntax(const std::string& text, position at, const std::string& said);

/// Finds a line that opens a section with what cannot begin a name, which toml++ 3.3 asserts instead of reporting.
remark odd_header(const std::string& text);

}  // namespace troupe::topology
