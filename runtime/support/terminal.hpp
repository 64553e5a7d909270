// Text on its way to a terminal.
#pragma once

#include <string>
#include <string_view>

namespace troupe {

/// Returns `text` so that nothing in it controls a terminal, whoever wrote it: bytes that are not UTF-8 and control
/// characters other than the end of a line become \xNN, and the middle of a line of more than 1,000 bytes is left out.
std::string for_terminal(std::string_view text);

}  // namespace troupe
