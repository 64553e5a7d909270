#include "troupe/apps/console/page.hpp"

#include "troupe/data/formats/utf8.hpp"
#include "troupe/runtime/support/terminal.hpp"

#include <algorithm>
#include <iostream>
#include <limits>
#include <sstream>
#include <unistd.h>

namespace troupe::apps {

namespace {

/// Prints a line, which may quote files that others wrote.
void print_line(const std::string& line) {
  std::cout << data::printable_utf8(line) << "\n";
}

}  // namespace

std::size_t page_columns(std::size_t otherwise) {
  if (!is_terminal(STDOUT_FILENO)) return otherwise;
  constexpr unsigned narrowest = 40;
  return std::max(columns_of(STDOUT_FILENO, 100), narrowest);
}

std::size_t columns_of_text(const std::string& text) {
  std::size_t columns = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte & 0xC0) == 0x80) continue;
    const bool combines =
        byte == 0xCC || (byte == 0xCD && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xB0);
    if (!combines) ++columns;
  }
  return columns;
}

void print_wrapped(const std::string& label, std::size_t indent, const std::string& text, std::size_t columns) {
  if (indent > columns / 2 && !label.empty()) {  // too narrow for a column of labels
    print_line(label);
    return print_wrapped("", 4, text, columns);
  }
  std::string line = label + std::string(indent - std::min(indent, columns_of_text(label)), ' ');
  std::size_t used = columns_of_text(line);
  bool first_word = true;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (!first_word && used + 1 + columns_of_text(word) > columns) {
      print_line(line);
      line = std::string(indent, ' ');
      used = indent;
      first_word = true;
    }
    line += (first_word ? "" : " ") + word;
    used += columns_of_text(word) + (first_word ? 0 : 1);
    first_word = false;
  }
  print_line(line);
}

void print_page(const std::string& text, std::size_t indent) {
  const auto columns = page_columns(std::numeric_limits<std::size_t>::max());
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto begin = std::max(indent, std::min(line.find_first_not_of(' '), columns / 2));
    if (columns_of_text(line) <= columns || line.size() <= begin)
      print_line(line);
    else
      print_wrapped(line.substr(0, begin), begin, line.substr(begin), columns);
  }
}

}  // namespace troupe::apps
