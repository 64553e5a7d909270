// Encodings of text files other than UTF-8, detected by the byte order mark at the beginning.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace troupe::data {

/// Returns the length in bytes of the byte order mark at the beginning of a text in UTF-8, or 0 if there is none.
std::size_t utf8_mark(std::string_view text);

/// Returns what is wrong and the fix, for a message, if the text begins with the byte order mark of another encoding;
/// otherwise "".
std::string other_encoding(std::string_view text, const std::filesystem::path& file);

}  // namespace troupe::data
