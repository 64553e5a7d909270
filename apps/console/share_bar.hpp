// How workers spend their time, as bars and columns of a table on a terminal.
#pragma once

#include "troupe/tools/diagnosis/findings.hpp"

#include <array>
#include <cstddef>
#include <string>

namespace troupe::apps {

/// What a worker spends its time on, and how a bar shows it.
struct kind_of_time {
  const char* name;
  const char* glyph;
  const char* colour;  ///< Escape sequence.
  double diagnosis::shares::*share;
};

inline constexpr std::array kinds_of_time{kind_of_time{"compute", "█", "\x1b[32m", &diagnosis::shares::compute},
                                          kind_of_time{"data", "▓", "\x1b[33m", &diagnosis::shares::data},
                                          kind_of_time{"exchange", "▒", "\x1b[36m", &diagnosis::shares::exchange},
                                          kind_of_time{"other", "·", "\x1b[90m", &diagnosis::shares::other}};

/// Returns a bar of `columns` columns, divided among the kinds of time.
std::string share_bar(const diagnosis::shares& of, std::size_t columns, bool coloured);

/// Returns text, right-aligned in `columns` columns.
std::string cell(const std::string& text, std::size_t columns);

}  // namespace troupe::apps
