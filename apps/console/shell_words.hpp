// Commands that this program prints so that users can run them.
#pragma once

#include <string>

namespace troupe::apps {

/// Returns an argument, quoted so that a shell reads it back.
std::string quoted(const std::string& argument);

/// Sets the name by which this program was called: the first argument of main(). An empty one is ignored.
void set_program_name(const char* name);

/// Returns the name of this program, quoted so that a shell reads it back; "troupe" until it is set.
std::string program_name();

}  // namespace troupe::apps
