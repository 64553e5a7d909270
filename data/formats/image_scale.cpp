#include "troupe/data/formats/image_scale.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace troupe::data {

namespace {

constexpr int fraction_bits = 32 - 8 - 2;

// For each pixel of a scaled line: where the source pixels that contribute to it begin, and their weights.
struct taps {
  std::vector<std::int64_t> begins;
  std::vector<std::vector<std::int32_t>> weights;
};

taps taps_of(std::int64_t from, std::int64_t to, std::int64_t first, std::int64_t count) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double support = std::max(scale, 1.0), step = 1.0 / support;
  taps result;
  for (std::int64_t index = first; index < first + count; ++index) {
    const double centre = (static_cast<double>(index) + 0.5) * scale;
    const auto begin = std::max<std::int64_t>(static_cast<std::int64_t>(centre - support + 0.5), 0);
    const auto end = std::min<std::int64_t>(static_cast<std::int64_t>(centre + support + 0.5), from);
    std::vector<double> shares;
    double sum = 0;
    for (std::int64_t at = begin; at < end; ++at) {
      const double distance = std::fabs((static_cast<double>(at) - centre + 0.5) * step);
      sum += shares.emplace_back(distance < 1.0 ? 1.0 - distance : 0.0);
    }
    auto& weights = result.weights.emplace_back();
    for (const double share : shares) {
      weights.push_back(static_cast<std::int32_t>(0.5 + (sum != 0 ? share / sum : share) * (1 << fraction_bits)));
    }
    result.begins.push_back(begin);
  }
  return result;
}

std::uint8_t rounded(std::int32_t sum) {
  return static_cast<std::uint8_t>(std::clamp(sum >> fraction_bits, 0, 255));
}

// Returns where the middle begins; halves are rounded to even, as in Python.
std::int64_t middle(std::int64_t whole, std::int64_t part) {
  const std::int64_t twice = whole - part, half = twice / 2;
  return half + (twice % 2 != 0 && half % 2 != 0 ? 1 : 0);
}

}  // namespace

image scaled_and_cut(const image& from, std::int64_t size) {
  const auto [height, width] = from.extent;
  const std::int64_t shorter = std::min(height, width);
  // Computes the longer side as torchvision does: an integer product, divided in double precision, truncated.
  const auto scaled = [&](std::int64_t side) {
    return side == shorter ? size
                           : static_cast<std::int64_t>(static_cast<double>(size * side) / static_cast<double>(shorter));
  };
  const std::int64_t tall = scaled(height), wide = scaled(width);
  const taps across = taps_of(width, wide, middle(wide, size), size);
  const taps down = taps_of(height, tall, middle(tall, size), size);
  const std::int64_t first = down.begins.front();
  const std::int64_t end = down.begins.back() + static_cast<std::int64_t>(down.weights.back().size());
  const auto line = static_cast<std::size_t>(3 * size);
  constexpr std::int32_t half = 1 << (fraction_bits - 1);

  std::vector<std::uint8_t> narrow(static_cast<std::size_t>(end - first) * line);
  auto* into = narrow.data();
  for (std::int64_t row = first; row < end; ++row) {
    const std::uint8_t* pixels = from.pixels.data() + 3 * row * width;
    for (std::size_t column = 0; column < static_cast<std::size_t>(size); ++column) {
      const std::uint8_t* pixel = pixels + 3 * across.begins[column];
      std::int32_t red = half, green = half, blue = half;
      for (const std::int32_t weight : across.weights[column]) {
        red += weight * *pixel++;
        green += weight * *pixel++;
        blue += weight * *pixel++;
      }
      *into++ = rounded(red);
      *into++ = rounded(green);
      *into++ = rounded(blue);
    }
  }

  image result{{size, size}, std::vector<std::uint8_t>(static_cast<std::size_t>(size) * line)};
  std::vector<std::int32_t> sums(line);
  for (std::size_t row = 0; row < static_cast<std::size_t>(size); ++row) {
    std::fill(sums.begin(), sums.end(), half);
    const std::uint8_t* value = narrow.data() + static_cast<std::size_t>(down.begins[row] - first) * line;
    for (const std::int32_t weight : down.weights[row])
      for (auto& sum : sums) sum += weight * *value++;
    std::transform(sums.begin(), sums.end(), result.pixels.begin() + static_cast<std::ptrdiff_t>(row * line), rounded);
  }
  return result;
}

}  // namespace troupe::data
