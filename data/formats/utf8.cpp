#include "troupe/data/formats/utf8.hpp"

namespace troupe::data {

std::size_t utf8_length_of_first(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [&](std::size_t index) { return static_cast<unsigned char>(text[index]); };
  const unsigned first = byte(0);
  const std::size_t length = first < 0x80   ? 1
                             : first < 0xc2 ? 0
                             : first < 0xe0 ? 2
                             : first < 0xf0 ? 3
                             : first < 0xf5 ? 4
                                            : 0;
  if (length == 0 || length > text.size()) return 0;
  for (std::size_t index = 1; index < length; ++index)
    if ((byte(index) & 0xc0) != 0x80) return 0;
  if (length < 3) return length;
  const unsigned second = byte(1);
  const bool overlong = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  const bool beyond = (first == 0xed && second >= 0xa0) || (first == 0xf4 && second >= 0x90);
  return overlong || beyond ? 0 : length;
}

std::size_t utf8_beginning(std::string_view text) {
  std::size_t done = 0;
  while (const std::size_t length = utf8_length_of_first(text.substr(done))) done += length;
  return done;
}

std::string printable_utf8(std::string_view text) {
  constexpr const char* digits = "0123456789abcdef";
  std::string result;
  while (!text.empty()) {
    const auto byte = static_cast<unsigned char>(text.front());
    std::size_t length = utf8_length_of_first(text);
    const auto is_c1 = length == 2 && byte == 0xc2 && static_cast<unsigned char>(text[1]) < 0xa0;
    if (length == 0 || byte < ' ' || byte == 0x7f || is_c1) {
      result += std::string{"\\x"} + digits[byte / 16] + digits[byte % 16];
      length = 1;
    } else {
      result += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
  return result;
}

std::string clipped(std::string_view text, std::size_t most) {
  if (text.size() <= most) return std::string(text);
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xc0) == 0x80) --most;
  return std::string(text.substr(0, most)) + "…";
}

}  // namespace troupe::data
