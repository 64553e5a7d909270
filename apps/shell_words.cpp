#include "troupe/apps/shell_words.hpp"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace troupe::apps {

namespace {

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
  std::string text = "'";
  for (const char c : argument) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

void set_program_name(const char* name) {
  if (name != nullptr && *name != '\0') called() = name;
}

std::string program_name() {
  return quoted(called());
}

}  // namespace troupe::apps
