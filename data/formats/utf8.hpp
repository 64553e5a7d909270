// UTF-8 (RFC 3629): finds the valid bytes of texts and names from outside.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace troupe::data {

/// Returns the length in bytes of the first character of `text`; 0 if `text` is empty or does not begin with a
/// character.
std::size_t utf8_length_of_first(std::string_view text);

/// Returns the length in bytes of the longest UTF-8 prefix of `text`.
std::size_t utf8_beginning(std::string_view text);

/// Returns the text with \xNN for each byte that is not part of a character and for control characters, so that it may
/// appear in metadata and on a terminal.
std::string printable_utf8(std::string_view text);

/// Returns the text; if it is longer than `most` bytes, its beginning up to a whole character, and "…".
std::string clipped(std::string_view text, std::size_t most);

}  // namespace troupe::data
