// Numbers in messages.
#pragma once

#include <array>
#include <charconv>
#include <string>

namespace troupe {

/// Returns the number with at most nine significant digits: 0.225, 1e-07.
inline std::string short_number(double value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::general, 9).ptr;
  return {text.data(), end};
}

}  // namespace troupe
