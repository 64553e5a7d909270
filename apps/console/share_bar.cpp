#include "troupe/apps/console/share_bar.hpp"

#include "troupe/apps/console/page.hpp"

#include <algorithm>
#include <cmath>

namespace troupe::apps {

std::string share_bar(const diagnosis::shares& of, std::size_t columns, bool coloured) {
  std::string text;
  double until = 0;
  std::size_t drawn = 0;
  for (const auto& kind : kinds_of_time) {
    until += of.*kind.share;
    const auto end = std::min(columns, static_cast<std::size_t>(std::lround(until * static_cast<double>(columns))));
    if (coloured && end > drawn) text += kind.colour;
    for (; drawn < end; ++drawn) text += kind.glyph;
  }
  return coloured ? text + "\x1b[0m" : text;
}

std::string cell(const std::string& text, std::size_t columns) {
  return std::string(columns - std::min(columns, columns_of_text(text)), ' ') + text;
}

}  // namespace troupe::apps
