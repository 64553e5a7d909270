// Works out where everything in a picture stands. A wiring has a shape that people know (a star, a ring, a torus, a
// mesh) and no general layout finds it.
#pragma once

#include "troupe/runtime/plan/picture.hpp"

#include <cstdint>
#include <optional>
#include <utility>

namespace troupe {

/// Fills in places, frames, bars and bounds, and the bow of each tie. The centre of the workers is the origin.
void lay_out(picture& drawn);

/// Returns the rows and columns of the torus whose edges these ties are, each row in the order of the units; nothing
/// where they are no torus of at least 2 × 3.
std::optional<std::pair<std::uint32_t, std::uint32_t>> torus_of(const picture& drawn);

}  // namespace troupe
