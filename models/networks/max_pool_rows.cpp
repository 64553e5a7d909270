#include "troupe/models/networks/max_pool_rows.hpp"

namespace troupe::models {

namespace {

/// Takes a value of the window if it is the largest so far. It has no branches, which random values would cause to be
/// mispredicted.
inline void take_larger(float value, std::int32_t index, float& largest, std::int32_t& place) {
  const bool larger = (value > largest) | (value != value);
  largest = larger ? value : largest;
  place = larger ? index : place;
}

}  // namespace

void pool_rows(const float* __restrict above, const float* __restrict below, std::int64_t columns,
               float* __restrict largest, std::int32_t* __restrict places) {
  for (std::int64_t i = 0; i < columns; ++i) {
    float value = above[2 * i];
    std::int32_t place = 0;
    take_larger(above[2 * i + 1], 1, value, place);
    take_larger(below[2 * i], 2, value, place);
    take_larger(below[2 * i + 1], 3, value, place);
    largest[i] = value;
    places[i] = place;
  }
}

void spread_row(const float* gradient, const std::int32_t* places, std::int64_t columns, std::int64_t width,
                float* above) {
  for (std::int64_t i = 0; i < columns; ++i) {
    const auto place = places[i];
    above[(place >> 1) * width + 2 * i + (place & 1)] = 0.0F + gradient[i];  // -0 becomes 0, as in LibTorch
  }
}

}  // namespace troupe::models
