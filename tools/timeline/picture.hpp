// A time line as an SVG picture.
#pragma once

#include "troupe/tools/timeline/timeline.hpp"

#include <string>

namespace troupe::timeline {

/// Draws a row for each worker, server and lane, and an arrow for each message. `notes` are printed below the title.
std::string to_svg(const plan& plan, const timeline& shown, const std::string& title, const std::string& notes);

}  // namespace troupe::timeline
