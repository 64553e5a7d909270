#include "troupe/runtime/topology/syntax.hpp"

#include "troupe/data/formats/utf8.hpp"

#include <algorithm>
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

/// A mistake that can be recognized in a line. The first group of `pattern` is its place; `advice` may use all groups.
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
      {std::regex(value + R"(((?:[A-Za-z_~/]|\.\.?/)[^\s"'#=]*))" + end),
       "$1 is written without quotes; expected \"$1\""},
      {std::regex(value + R"(([+-]?)(\.\d+))" + end), "a number must begin with a digit; expected $010$2"},
      {std::regex(value + R"((-?\d+),(\d+))" + end), "the number contains a comma; expected $1.$2"},
      {std::regex(value + R"((-?\d+\.))" + end), "a number must end with a digit; expected $010"},
      {std::regex(value + R"((\d+)\s+\w+)" + end),
       "there is text after the number; expected $1 alone, or the whole value in quotes"},
      {std::regex(R"(^\s*([\w.-]+)\s*==\s*(\S+))" + end), "there are two equals signs; expected $1 = $2"},
      {std::regex(value + R"(([^,\[{"']+)\s*,)" + end), "there is a comma after the value; expected $1 alone"},
      {std::regex(R"(^\s*([\w.-]+))" + end), "\"$1\" has no value; expected $1 = value"},
      {std::regex(key + end), "\"$1\" has no value; expected one after the ="},
      {std::regex(R"(^\s*([\w-]+)\s*:\s*(\S+))" + end), "there is a colon instead of an equals sign; expected $1 = $2"},
      {std::regex(R"(^\s*([\w-]+)\s+([^=\s]+))" + end), "there is no = between key and value; expected $1 = $2"},
      {std::regex(R"(^\s*\[+\s*([\w-]+))" + end), "the section header is not closed; expected [$1]"},
      {std::regex(R"(^\s*\[+\s*[\w-]+\s*\]+\s*([^#\s].*)$)"),
       "there is text after the section header; expected $1 on a line of its own"},
  };
  return all;
}

std::uint32_t column(std::ptrdiff_t offset) {
  return static_cast<std::uint32_t>(offset) + 1;
}

std::optional<remark> twice(const std::string& line, position at) {
  std::smatch match;
  if (std::regex_search(line, match, std::regex(R"(^\s*(\[+)\s*([^\]\s]+))"))) {
    at.column = column(match.position(1));
    const std::string name = match[2];
    if (match[1] == "[[")
      return remark{at, "[[" + name + "]] follows [" + name + "]; expected [[" + name + "]] for each"};
    return remark{at, "[" + name + "] appears twice; expected each section once, with all its keys below it" +
                          (name == "exchange" || name == "node" ? ", or [[" + name + "]] before each of several" : "")};
  }
  if (std::regex_search(line, match, std::regex(R"(^\s*([^=\s]+)\s*=[^=]*$)"))) {
    at.column = column(match.position(1));
    return remark{at, "\"" + match[1].str() + "\" appears twice; expected each key once"};
  }
  return remark{at, "a key appears twice; expected each key once"};
}

/// Recognizes a list of words without quotes, such as "loop = [gradient, apply]".
std::optional<remark> bare_list(const std::string& line, position at) {
  std::smatch match;
  if (!std::regex_search(line, match, std::regex(R"(=\s*(\[\s*[A-Za-z_][^"'\]]*\]))"))) return {};
  at.column = column(match.position(1));
  const std::string quoted = std::regex_replace(match[1].str(), std::regex(R"([A-Za-z_][\w-]*)"), "\"$&\"");
  return remark{at, "the words in the list are written without quotes; expected " + quoted};
}

constexpr const char* unreadable = "this is not readable text; expected a TOML file in UTF-8";

bool continues(char c) {
  return (static_cast<unsigned char>(c) & 0xc0) == 0x80;
}

position place_of(std::string_view text, std::size_t offset) {
  position at{.override_number = 0, .line = 1, .column = 1};
  for (const char c : text.substr(0, offset)) {
    if (c == '\n') {
      ++at.line;
      at.column = 1;
    } else if (!continues(c)) {
      ++at.column;
    }
  }
  return at;
}

/// Returns the end of the string that opens at `begin`, or of its line or the text if that comes first.
std::size_t end_of_string(std::string_view text, std::size_t begin) {
  const char quote = text[begin];
  const std::string three(3, quote);
  const bool multiline = text.substr(begin, 3) == three;
  for (std::size_t i = begin + (multiline ? 3 : 1); i < text.size(); ++i) {
    if (text[i] == '\\' && quote == '"') {
      ++i;
    } else if (!multiline && (text[i] == quote || text[i] == '\n')) {
      return i;
    } else if (multiline && text.substr(i, 3) == three) {
      i += 2;
      for (int more = 0; more < 2 && text.substr(i + 1, 1) == three.substr(2); ++more)
        ++i;  // two quotes may precede the end
      return i;
    }
  }
  return text.size();
}

/// Returns the text with an x for each byte inside a string, and with spaces for comments and a byte order mark.
std::string without_contents(std::string_view text) {
  std::string bare(text);
  if (text.starts_with("\xef\xbb\xbf")) std::fill_n(bare.begin(), 3, ' ');
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '#') {
      for (; i < text.size() && text[i] != '\n'; ++i) bare[i] = ' ';
    } else if (text[i] == '"' || text[i] == '\'') {
      const std::size_t end = end_of_string(text, i);
      for (++i; i < end; ++i) {
        if (text[i] != '\n') bare[i] = 'x';
      }
    }
  }
  return bare;
}

bool quotation_mark(const std::string& letter) {
  const std::string_view marks[] = {"“", "”", "„", "‘", "’", "‚", "«", "»"};
  return std::find(std::begin(marks), std::end(marks), letter) != std::end(marks);
}

std::optional<remark> too_deep(std::string_view bare) {
  std::size_t parts = 1;
  for (std::size_t i = 0; i < bare.size(); ++i) {
    if (std::string_view("\n=,{[").find(bare[i]) != std::string_view::npos) parts = 1;
    if (bare[i] == '.' && ++parts > most_key_parts) {
      const std::string most = std::to_string(most_key_parts);
      return remark{place_of(bare, i), "a key has more than " + most + " parts; expected section.key"};
    }
  }
  return {};
}

}  // namespace

std::optional<remark> check_text(std::string_view text) {
  if (const std::size_t end = data::utf8_beginning(text); end < text.size())
    return remark{place_of(text, end), unreadable};
  const std::string bare = without_contents(text);
  const auto foreign =
      std::find_if(bare.begin(), bare.end(), [](char c) { return static_cast<unsigned char>(c) >= 0x80; });
  if (foreign == bare.end()) return too_deep(bare);
  const auto offset = static_cast<std::size_t>(foreign - bare.begin());
  const std::string letter(text.substr(offset, data::utf8_length_of_first(text.substr(offset))));
  return remark{place_of(text, offset), letter + " is outside a string; expected " +
                                            (quotation_mark(letter) ? "straight quotes: \"" : "it in quotes")};
}

remark explain_syntax(const std::string& text, position at, const std::string& message) {
  const auto contains = [&](std::string_view words) { return message.find(words) != std::string::npos; };
  const std::string line = line_of(text, at.line);
  if (contains("other than TAB")) return {at, "the string does not end on its line; expected a closing quote"};
  if (contains("utf-8") || contains("control character") || contains("\\u00")) {
    return {at, unreadable};
  }
  if (contains("nested value depth"))
    return {at, "the brackets are nested too deeply; expected a value such as [1, 2]"};
  if (contains("cannot redefine")) return *twice(line, at);
  if (contains("not representable")) return {at, "the number is too large; expected at most 9223372036854775807"};
  if (const auto found = bare_list(line, at)) return *found;
  for (const slip& slip : slips()) {
    std::smatch match;
    if (!std::regex_search(line, match, slip.pattern)) continue;
    at.column = column(match.position(1));
    return {at, match.format(slip.advice)};
  }
  if (contains("end-of-file")) return {at, "the file ends within a list, string or table; expected it to be closed"};
  constexpr std::string_view prefix = "Error while parsing ";
  return {at, "this line is not valid TOML (" +
                  (message.starts_with(prefix) ? message.substr(prefix.size()) : message) +
                  "); expected key = value, or a [section]"};
}

remark odd_header(const std::string& text) {
  const std::string problem = "the section header has no name; expected one in the brackets, such as [run]";
  const std::regex odd(R"(^\s*\[\[?[ \t]*[^\s\w"'\]-])");
  std::istringstream lines(text);
  std::string line;
  for (std::uint32_t number = 1; std::getline(lines, line); ++number) {
    line.resize(std::min(line.size(), longest_line));
    std::smatch match;
    if (std::regex_search(line, match, odd)) {
      return {{.override_number = 0, .line = number, .column = static_cast<std::uint32_t>(match.length())}, problem};
    }
  }
  return {{}, problem};
}

}  // namespace troupe::topology
