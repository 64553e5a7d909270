// Mixing matrices that look the same from each node: those of a ring, a torus, a complete or an exponential graph, with
// any number of members. Pure functions.
#pragma once

#include "troupe/algorithms/rules/mixing.hpp"

#include <cstdint>
#include <optional>

namespace troupe::rules {

/// Returns the number of columns of a torus on which W looks the same from each node: moving all nodes by any number of
/// rows and columns, around the ends, leaves W as it is. Node i is in row i / columns. A circulant W, such as that of a
/// ring, has one row of n columns. Returns nothing if W has no such symmetry or no nodes.
std::optional<std::uint32_t> columns_of_symmetry(const mixing_matrix& mixing);

/// Returns the rates of a W that has this symmetry: W is normal, and its eigenvalues are the discrete Fourier transform
/// of its first row. O(n · degree).
mixing_rates rates_by_symmetry(const mixing_matrix& mixing, std::uint32_t columns);

}  // namespace troupe::rules
