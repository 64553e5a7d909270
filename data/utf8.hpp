// UTF-8 (RFC 3629), for texts and names that others wrote: what is in it, and what is not.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace troupe::data {

/// Bytes of the character that `text` begins with; 0: it begins with none, or is empty.
std::size_t utf8_length_of_first(std::string_view text);

/// Bytes of the longest beginning of `text` that is UTF-8: all of them where it is.
std::size_t utf8_beginning(std::string_view text);

/// The text, with \xNN for each byte that is no part of a character, and for control characters: what may stand in
/// metadata and on a terminal.
std::string printable_utf8(std::string_view text);

}  // namespace troupe::data
