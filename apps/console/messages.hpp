// Messages that the commands print to standard error. They may quote files that others wrote; see for_terminal().
#pragma once

#include <string>

namespace troupe::apps {

/// Prints "error: " and the text.
void print_error(const std::string& text);

/// Prints the text without a prefix.
void print_note(const std::string& text);

}  // namespace troupe::apps
