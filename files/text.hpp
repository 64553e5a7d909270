// Words and untrusted text in messages to people.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace troupe::text {

/// Returns the words with `between` between them.
std::string joined(const std::vector<std::string>& words, std::string_view between);

/// Returns `words` as a list in prose, such as "a, b or c".
std::string listed(const std::vector<std::string>& words, std::string_view last = "or");

/// Returns the words, each in quotes.
std::vector<std::string> in_quotes(std::vector<std::string> words);

/// Returns untrusted text in a form that is safe to print on one line of a terminal: at most 60 bytes of it, with
/// control characters and non-ASCII bytes replaced.
std::string printable(std::string_view text);

}  // namespace troupe::text
