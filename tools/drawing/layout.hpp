// Places the parts of a picture. Well-known wirings (a star, a ring, a torus, a mesh) have a usual shape that general
// graph layouts do not find.
#pragma once

#include "troupe/tools/drawing/picture.hpp"

#include <cstdint>
#include <optional>
#include <utility>

namespace troupe {

/// Fills in places, frames, bars and bounds, and the bow of each tie. The centre of the workers is the origin.
void lay_out(picture& drawn);

/// Returns the rows and columns of the torus that the ties form, with the units in row order, or nothing if they do not
/// form a torus of at least 2 × 3.
std::optional<std::pair<std::uint32_t, std::uint32_t>> torus_of(const picture& drawn);

}  // namespace troupe
