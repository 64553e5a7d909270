// Makes text safe to print on a terminal.
#pragma once

#include <string>
#include <string_view>

namespace troupe {

/// Returns `text` without anything that could control a terminal: replaces control characters except line feeds, and
/// bytes that are not UTF-8, by \xNN, and omits the middle of lines longer than 1,000 bytes.
std::string for_terminal(std::string_view text);

}  // namespace troupe
