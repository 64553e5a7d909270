// Explains why a file is not valid TOML from its text: what was probably meant and mistyped, instead of the parser's
// message.
#pragma once

#include "troupe/runtime/topology/mistakes.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace troupe::topology {

/// An error message and its position.
struct remark {
  position at;
  std::string text;
};

/// Finds input that the parser (toml++ 3.3) must not see; returns nothing if there is none. Such input is: bytes that
/// are not UTF-8; non-ASCII letters outside strings and comments, for which the parser's behaviour is undefined; and
/// keys with more than 32 parts, because each part is a nested table and their destructors would exhaust the stack.
std::optional<remark> check_text(std::string_view text);

/// Returns a helpful message for the error that the parser found at `at`. `message` is the parser's own message (toml++
/// 3.3).
remark explain_syntax(const std::string& text, position at, const std::string& message);

/// Finds a section header that begins with a character that no name can begin with. toml++ 3.3 fails an assertion on
/// such a header instead of reporting it.
remark odd_header(const std::string& text);

}  // namespace troupe::topology
