// The loops of max_pool.cpp, compiled on their own: their options would make its other headers slow to compile.
#pragma once

#include <cstdint>

namespace troupe::models {

/// Writes the largest value of each window of two rows, and its place in the window: 0 or 1 above, 2 or 3 below. The
/// compiler makes vector instructions of this loop (see CMakeLists.txt); places have the size of values for this
/// reason.
void pool_rows(const float* above, const float* below, std::int64_t columns, float* largest, std::int32_t* places);

/// Gives the gradient of each window to the value that was the largest. The others are 0 already.
void spread_row(const float* gradient, const std::int32_t* places, std::int64_t columns, std::int64_t width,
                float* above);

}  // namespace troupe::models
