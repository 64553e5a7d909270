// What a terminal needs: text that is safe to print, its width, and whether it shows colours.
#pragma once

#include <string>
#include <string_view>

namespace troupe {

/// Returns `text` without anything that could control a terminal: replaces control characters except line feeds, and
/// bytes that are not UTF-8, by \xNN, and omits the middle of lines longer than 1,000 bytes.
std::string for_terminal(std::string_view text);

/// Returns whether an open file, such as STDOUT_FILENO, is a terminal on which lines can be updated.
bool is_terminal(int file);

/// Returns the number of columns of a terminal, or `otherwise` if the file is not one.
unsigned columns_of(int file, unsigned otherwise);

/// Returns the number of rows of a terminal, or `otherwise` if the file is not one.
unsigned rows_of(int file, unsigned otherwise);

/// Returns whether to print colours to a file: it is a terminal, and the environment variable NO_COLOR is not set.
bool shows_colours(int file);

}  // namespace troupe
