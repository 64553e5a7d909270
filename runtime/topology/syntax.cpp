#include "troupe/runtime/topology/syntax.hpp"

#include <algorithm>
#include <cctype>
#include <regex>
#include <sstream>
#include <vector>

namespace troupe::topology {
namespace {

constexpr std::size_t most_key_parts = 32;
constexpr std::size_t longest_line = 200;  // std::regex recurses

std::string line_of(const std::string& text, std::size_t number) {
  std::istringstream lines(text);
  std::string line;
  for (std::size_t i = 0; i < number && std::getline(lines, line); ++i) {
  }
  line.resize(std::min(line.size(), longest_line));
  return line;
}

/// A slip that a line gives away. The first group of `pattern` is where it is; `advice` may use all of them.
struct slip {
  std::regex pattern;
  std::string advice;
};

const std::vector<slip>& slips() {
  const std::string key = R"(^\s*([\w.-]+)\s*=\s*)", end = R"(\s*(?:#.*)?$)";
  const std::string value = R"(^\s*[\w.-]+\s*=\s*)";
  static const std::vector<slip> all = {
      {std::regex(value + "([Tt][Rr][Uu][Ee])" + end), "$1 is not TOML; expected true"},
      {std::regex(value + "([Ff][Aa][Ll][Ss][Ee])" + end), "$1 is not TOML; expected false"},
      {std::regex(value + R"(((?:[A-Za-z_~/]|\.\.?/)[^\s"'#=]*))" + end), "$1 stands without quotes; expected \"$1\""},
      {std::regex(value + R"(([+-]?)(\.\d+))" + end), "a number begins with a digit; expected $010$2"},
      {std::regex(value + R"((-?\d+),(\d+))" + end), "a comma in a number; expected $1.$2"},
      {std::regex(value + R"((-?\d+\.))" + end), "a number ends with a digit; expected $010"},
      {std::regex(value + R"((\d+)\s+\w+)" + end), "text after a number; expected $1 alone, or all of it in quotes"},
      {std::regex(key + end), "\"$1\" has no value; expected one after the ="},
      {std::regex(R"(^\s*([\w-]+)\s*:\s*(\S+))" + end), "a colon; expected $1 = $2"},
      {std::regex(R"(^\s*([\w-]+)\s+([^=\s]+))" + end), "no = between key and value; expected $1 = $2"},
      {std::regex(R"(^\s*\[+\s*([\w-]+))" + end), "the name of a section is not closed; expected [$1]"},
      {std::regex(R"(^\s*\[+\s*[\w-]+\s*\]+\s*([^#\s].*)$)"),
       "text behind the name of a section; expected $1 on a line of its own"},
  };
  return all;
}

std::uint32_t column(std::ptrdiff_t offset) {
  return static_cast<std::uint32_t>(offset) + 1;
}

/// Returns where the first byte stands that is not UTF-8, or `at` where the parser knows better.
position first_foreign_byte(const std::string& text, position at) {
  position here{.override_number = 0, .line = 1, .column = 1};
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const std::size_t length = lead < 0x80                   ? 1
                               : lead >= 0xc2 && lead < 0xe0 ? 2
                               : lead >> 4 == 0xe            ? 3
                               : lead >> 3 == 0x1e           ? 4
                                                             : 0;
    if (length == 0 || i + length > text.size()) return here;
    for (std::size_t k = 1; k < length; ++k) {
      if ((static_cast<unsigned char>(text[i + k]) & 0xc0) != 0x80) return here;
    }
    i += length;
    ++here.column;
    if (lead == '\n') here = {.override_number = 0, .line = here.line + 1, .column = 1};
  }
  return at;
}

std::optional<remark> twice(const std::string& line, position at) {
  std::smatch match;
  if (std::regex_search(line, match, std::regex(R"(^\s*(\[+)\s*([^\]\s]+))"))) {
    at.column = column(match.position(1));
    const std::string name = match[2];
    if (match[1] == "[[")
      return remark{at, "[[" + name + "]] after [" + name + "]; expected [[" + name + "]] for each"};
    return remark{at, "[" + name + "] appears twice; expected each section once, with all its keys below it"};
  }
  if (std::regex_search(line, match, std::regex(R"(^\s*([^=\s]+)\s*=[^=]*$)"))) {
    at.column = column(match.position(1));
    return remark{at, "\"" + match[1].str() + "\" appears twice; expected each key once"};
  }
  return remark{at, "a key appears twice; expected each key once"};
}

/// "loop = [gradient, apply]"
std::optional<remark> bare_list(const std::string& line, position at) {
  std::smatch match;
  if (!std::regex_search(line, match, std::regex(R"(=\s*(\[\s*[A-Za-z_][^"'\]]*\]))"))) return {};
  at.column = column(match.position(1));
  const std::string quoted = std::regex_replace(match[1].str(), std::regex(R"([A-Za-z_][\w-]*)"), "\"$&\"");
  return remark{at, "words in a list stand without quotes; expected " + quoted};
}

}  // namespace

std::optional<remark> too_deep(std::string_view text) {
  position at{.override_number = 0, .line = 1, .column = 0};
  std::size_t parts = 1;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    ++at.column;
    if (c == '\n') {
      ++at.line;
      at.column = 0;
    }
    if (std::string_view("\n=,{[").find(c) != std::string_view::npos) parts = 1;
    if (c != '.') continue;
    const std::size_t next = text.find_first_not_of(" \t", i + 1);
    if (next == std::string_view::npos) break;
    const bool goes_on = std::isalnum(static_cast<unsigned char>(text[next])) != 0 ||
                         std::string_view("\"'_-").find(text[next]) != std::string_view::npos;
    if (goes_on && ++parts > most_key_parts) {
      return remark{at, "a key of more than " + std::to_string(most_key_parts) + " parts; expected section.key"};
    }
  }
  return {};
}

remark explain_syntax(const std::string& text, position at, const std::string& said) {
  const auto says = [&](std::string_view words) { return said.find(words) != std::string::npos; };
  const std::string line = line_of(text, at.line);
  if (says("other than TAB")) return {at, "the string does not end on its line; expected a closing quote"};
  if (says("utf-8")) at = first_foreign_byte(text, at);
  if (says("utf-8") || says("control character") || says("\\u00")) {
    return {at, "this is not readable text; expected a TOML file in UTF-8"};
  }
  if (says("nested value depth")) return {at, "too many brackets within brackets; expected a value such as [1, 2]"};
  if (says("cannot redefine")) return *twice(line, at);
  if (says("not representable")) return {at, "the number is too large; expected at most 9223372036854775807"};
  if (const auto found = bare_list(line, at)) return *found;
  for (const slip& each : slips()) {
    std::smatch match;
    if (!std::regex_search(line, match, each.pattern)) continue;
    at.column = column(match.position(1));
    return {at, match.format(each.advice)};
  }
  if (says("end-of-file")) return {at, "the file ends within a list, string or table; expected it to be closed"};
  constexpr std::string_view prefix = "Error while parsing ";
  return {at, "this is not TOML: " + (said.starts_with(prefix) ? said.substr(prefix.size()) : said)};
}

remark odd_header(const std::string& text) {
  const std::string said = "a section without a name; expected one in the brackets, such as [run]";
  const std::regex odd(R"(^\s*\[\[?[ \t]*[^\s\w"'\]-])");
  std::istringstream lines(text);
  std::string line;
  for (std::uint32_t number = 1; std::getline(lines, line); ++number) {
    line.resize(std::min(line.size(), longest_line));
    std::smatch match;
    if (std::regex_search(line, match, odd)) {
      return {{.override_number = 0, .line = number, .column = static_cast<std::uint32_t>(match.length())}, said};
    }
  }
  return {{}, said};
}

}  // namespace troupe::topology
