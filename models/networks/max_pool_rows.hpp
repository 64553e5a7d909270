// The loops of max_pool.cpp, compiled separately because their compiler options would make the headers of max_pool.cpp
// slow to compile.
#pragma once

#include <cstdint>

namespace troupe::models {

/// Writes the largest value of each window of two rows, and its place in the window: 0 or 1 above, 2 or 3 below. The
/// compiler vectorises this loop (see CMakeLists.txt), which is why places have the size of values.
void pool_rows(const float* above, const float* below, std::int64_t columns, float* largest, std::int32_t* places);

/// Writes the gradient of each window to the place of its largest value. All other places must already be 0.
void spread_row(const float* gradient, const std::int32_t* places, std::int64_t columns, std::int64_t width,
                float* above);

}  // namespace troupe::models
