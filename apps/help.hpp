// Help texts of the command line.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace troupe::apps {

/// Returns " (did you mean …?)" with the command of `app` that a user may mean by `word`, or "".
std::string meant_command(const CLI::App& app, const std::string& word);

/// Prints a help text of CLI11, wrapped at the width of the terminal, or at 80 columns without one.
void print_help(const std::string& text);

}  // namespace troupe::apps
