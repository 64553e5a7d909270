// What the commands print to standard error.
#pragma once

#include <string>

namespace troupe::apps {

/// Prints "error: " and the text, which may quote files that others wrote: see for_terminal().
void print_error(const std::string& text);

/// Prints the text alone.
void print_note(const std::string& text);

}  // namespace troupe::apps
