#include "troupe/apps/messages.hpp"

#include "troupe/runtime/support/terminal.hpp"

#include <cstdio>
#include <cstdlib>
#include <unistd.h>

namespace troupe::apps {

void print_error(const std::string& text) {
  const char* no_colour = std::getenv("NO_COLOR");
  const bool red = isatty(STDERR_FILENO) != 0 && (no_colour == nullptr || *no_colour == '\0');
  std::fprintf(stderr, "%s%s\n", red ? "\033[1;31merror:\033[0m " : "error: ", for_terminal(text).c_str());
}

void print_note(const std::string& text) {
  std::fprintf(stderr, "%s\n", for_terminal(text).c_str());
}

}  // namespace troupe::apps
