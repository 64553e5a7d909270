#include "troupe/apps/console/messages.hpp"

#include "troupe/runtime/support/terminal.hpp"

#include <cstdio>
#include <unistd.h>

namespace troupe::apps {

void print_error(const std::string& text) {
  const bool red = shows_colours(STDERR_FILENO);
  std::fprintf(stderr, "%s%s\n", red ? "\033[1;31merror:\033[0m " : "error: ", for_terminal(text).c_str());
}

void print_note(const std::string& text) {
  std::fprintf(stderr, "%s\n", for_terminal(text).c_str());
}

}  // namespace troupe::apps
