// Chooses how the ties of each exchange are shown, and draws them.
#pragma once

#include "troupe/tools/drawing/canvas.hpp"
#include "troupe/tools/drawing/picture.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace troupe {

/// Numbers the ties between each pair of units, so that they run side by side.
void set_lanes(picture& drawn);

/// Returns the unit that all traffic goes through, if there is one among three or more.
std::optional<std::uint32_t> centre_of(const picture& drawn);

/// Returns how the ties of an exchange are drawn.
tie_style style_of(const picture& drawn, std::size_t exchange);

/// Returns whether there is room for a label on each line. Labels of lines that cross would overlap.
bool has_labels(const picture& drawn);

/// Returns the unit whose ties are drawn in full if the others are faint.
std::uint32_t first_unit_of(const picture& drawn, std::size_t exchange);

/// Draws all ties of a picture that has been laid out. `names`: names of the exchanges, for programs that read the DOT.
void draw_ties(canvas& drawing, const picture& drawn, const std::vector<std::string>& names);

}  // namespace troupe
