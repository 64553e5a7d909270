#include "troupe/runtime/support/terminal.hpp"

#include "troupe/data/formats/utf8.hpp"

#include <sys/ioctl.h>

#include <cstdlib>
#include <unistd.h>

namespace troupe {

namespace {

constexpr std::size_t longest_line = 1000, kept_at_end = 200;

/// Returns whether `byte` continues a character of UTF-8.
bool continues(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0) == 0x80;
}

std::string shortened(const std::string& line) {
  if (line.size() <= longest_line) return line;
  auto head = longest_line - kept_at_end, tail = line.size() - kept_at_end;
  while (head > 0 && continues(line[head])) --head;
  while (tail < line.size() && continues(line[tail])) ++tail;
  return line.substr(0, head) + " … (" + std::to_string(tail - head) + " bytes left out) … " + line.substr(tail);
}

}  // namespace

std::string for_terminal(std::string_view text) {
  std::string safe;
  while (true) {
    const auto end = text.find('\n');
    safe += shortened(data::printable_utf8(text.substr(0, end)));
    if (end == std::string_view::npos) return safe;
    safe += '\n';
    text.remove_prefix(end + 1);
  }
}

bool is_terminal(int file) {
  const char* kind = std::getenv("TERM");
  return ::isatty(file) != 0 && kind != nullptr && std::string_view(kind) != "dumb";
}

unsigned columns_of(int file, unsigned otherwise) {
  winsize size{};
  return ::ioctl(file, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : otherwise;
}

unsigned rows_of(int file, unsigned otherwise) {
  winsize size{};
  return ::ioctl(file, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 ? size.ws_row : otherwise;
}

bool shows_colours(int file) {
  const char* forbidden = std::getenv("NO_COLOR");
  return is_terminal(file) && (forbidden == nullptr || *forbidden == '\0');
}

}  // namespace troupe
