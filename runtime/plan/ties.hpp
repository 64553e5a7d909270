// The ties of a picture: how those of each exchange are shown, and the drawing of them.
#pragma once

#include "troupe/runtime/plan/canvas.hpp"
#include "troupe/runtime/plan/picture.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace troupe {

/// Counts the ties of each pair of units, so that they run side by side.
void set_lanes(picture& drawn);

/// Returns the unit that all traffic goes through, if there is one among three or more.
std::optional<std::uint32_t> centre_of(const picture& drawn);

/// Says how the ties of an exchange are drawn.
tie_style style_of(const picture& drawn, std::size_t exchange);

/// Whether there are so few lines that each can say what it carries. Lines that cross would have labels upon each
/// other.
bool has_labels(const picture& drawn);

/// Returns the unit whose ties are not faint where the others are.
std::uint32_t first_unit_of(const picture& drawn, std::size_t exchange);

/// Draws all ties of a picture that has its places. `names`: of the exchanges, for programs that read the drawing.
void draw_ties(canvas& drawing, const picture& drawn, const std::vector<std::string>& names);

}  // namespace troupe
