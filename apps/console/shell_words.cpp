#include "troupe/apps/console/shell_words.hpp"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace troupe::apps {

namespace {

/// Returns a word with control characters in the quotes that bash, zsh and POSIX.1-2024 understand: $'new\nline'.
std::string with_escapes(const std::string& argument) {
  constexpr auto* digits = "01234567";
  std::string text = "$'";
  for (const char c : argument) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\'' || c == '\\')
      text += {'\\', c};
    else if (std::iscntrl(byte) != 0)
      text += {'\\', digits[byte >> 6U], digits[byte >> 3U & 7U], digits[byte & 7U]};
    else
      text += c;
  }
  return text + "'";
}

std::string& called() {
  static std::string name = "troupe";
  return name;
}

}  // namespace

std::string quoted(const std::string& argument) {
  const auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("-_./+:,=@%").find(c) != std::string_view::npos;
  };
  if (!argument.empty() && std::all_of(argument.begin(), argument.end(), plain)) return argument;
  const auto is_control = [](char c) { return std::iscntrl(static_cast<unsigned char>(c)) != 0; };
  if (std::any_of(argument.begin(), argument.end(), is_control)) return with_escapes(argument);
  std::string text = "'";
  for (const char c : argument) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

void set_program_name(const char* name) {
  if (name != nullptr && *name != '\0') called() = name;
}

std::string program_name() {
  return apps::quoted(called());
}

}  // namespace troupe::apps
