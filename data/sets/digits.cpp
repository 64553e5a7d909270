// The built-in data set: digits drawn from strokes, each in its own handwriting. The strokes of a glyph are bent,
// sheared, turned, scaled and shifted, drawn with a pen of random width and darkness, crossed by stray lines, and
// covered with noise. An image is a function of (set, index) only. Coordinates are computed with + - * / and square
// roots only (no sines from a library), so that all machines draw the same bytes.
#include "troupe/data/random/random.hpp"
#include "troupe/data/sets/dataset.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace troupe::data {

namespace {

constexpr std::int64_t digit_side = 28;
constexpr std::int64_t pixels = digit_side * digit_side;
constexpr std::int64_t digit_count = 10;

struct point {
  float x, y;  ///< x to the right, y down; a glyph fills [-0.6, 0.6] x [-1, 1].
};
using stroke = std::vector<point>;
using glyph = std::vector<stroke>;

// Returns the point of an ellipse at `quarters` of a turn, from the right through the bottom, in the rational
// parametrisation, which is even enough between quarters and needs no sines.
point on_ellipse(point centre, point radius, float quarters) {
  const float whole = std::floor(quarters);
  const float t = quarters - whole;
  const float along = (1 - t * t) / (1 + t * t), across = 2 * t / (1 + t * t);
  const std::array<point, 4> turned{{{along, across}, {-across, along}, {-along, -across}, {across, -along}}};
  const point unit = turned[static_cast<std::size_t>(whole) % 4];
  return {centre.x + radius.x * unit.x, centre.y + radius.y * unit.y};
}

// Returns a stroke: `before`, an arc from one quarter to another (either may be the larger), and `after`.
stroke arc(stroke before, point centre, point radius, float from, float to, const stroke& after = {}) {
  const int pieces = 1 + static_cast<int>(std::fabs(to - from) * 4);
  for (int piece = 0; piece <= pieces; ++piece) {
    before.push_back(
        on_ellipse(centre, radius, from + (to - from) * static_cast<float>(piece) / static_cast<float>(pieces)));
  }
  before.insert(before.end(), after.begin(), after.end());
  return before;
}

// Several forms of each digit. Quarters: 0 right, 1 bottom, 2 left, 3 top.
std::array<std::vector<glyph>, digit_count> alphabet() {
  const stroke none;
  return {{
      {{arc(none, {0, 0}, {0.58f, 1}, 0, 4)},
       {arc(none, {0, 0}, {0.42f, 0.95f}, 0, 4)},
       {arc(none, {0, 0}, {0.6f, 0.8f}, 3.2f, 7.5f)}},
      {{{{0, -1}, {0, 1}}},
       {{{-0.4f, -0.55f}, {0.05f, -1}, {0.05f, 1}}},
       {{{-0.35f, -0.6f}, {0, -1}, {0, 1}}, {{-0.4f, 1}, {0.4f, 1}}}},
      {{arc(none, {0, -0.45f}, {0.55f, 0.55f}, 2.1f, 4.6f, {{-0.55f, 1}, {0.6f, 1}})},
       {{{-0.5f, -1}, {0.5f, -1}, {0.5f, 0}, {-0.5f, 0}, {-0.5f, 1}, {0.5f, 1}}},
       {arc(none, {0, -0.5f}, {0.5f, 0.5f}, 2.4f, 5.0f, {{-0.3f, 0.5f}, {-0.5f, 0.95f}, {0, 0.8f}, {0.6f, 1}})}},
      {{arc(arc(none, {0, -0.5f}, {0.5f, 0.5f}, 2.2f, 5), {0, 0.5f}, {0.56f, 0.5f}, 3, 5.8f)},
       {arc({{-0.5f, -1}, {0.5f, -1}, {-0.1f, -0.15f}}, {0, 0.42f}, {0.55f, 0.57f}, 3, 5.8f)},
       {{{-0.5f, -1}, {0.5f, -1}, {0.5f, 1}, {-0.5f, 1}}, {{-0.3f, 0}, {0.5f, 0}}}},
      {{{{0.25f, 1}, {0.25f, -1}, {-0.6f, 0.3f}, {0.6f, 0.3f}}},
       {{{-0.5f, -1}, {-0.5f, 0.1f}, {0.55f, 0.1f}}, {{0.4f, -0.9f}, {0.4f, 1}}},
       {{{-0.1f, -1}, {-0.55f, 0.2f}, {0.6f, 0.1f}}, {{0.25f, -0.4f}, {0.1f, 1}}}},
      {{arc({{0.5f, -1}, {-0.4f, -1}, {-0.45f, -0.1f}}, {0, 0.38f}, {0.56f, 0.6f}, 2.7f, 5.7f)},
       {{{0.5f, -1}, {-0.5f, -1}, {-0.5f, 0}, {0.5f, 0}, {0.5f, 1}, {-0.5f, 1}}},
       {arc({{-0.35f, -0.9f}, {-0.45f, -0.2f}}, {-0.05f, 0.35f}, {0.55f, 0.6f}, 2.8f, 5.6f),
        {{-0.35f, -0.9f}, {0.55f, -1}}}},
      {{arc(arc(none, {0.1f, 0.1f}, {0.65f, 1.1f}, 3.3f, 2.1f), {0, 0.45f}, {0.54f, 0.53f}, 2, 6)},
       {arc({{0.3f, -1}, {-0.3f, -0.3f}}, {0, 0.45f}, {0.5f, 0.5f}, 2, 6)},
       {{{0.5f, -1}, {-0.5f, -1}, {-0.5f, 1}, {0.5f, 1}, {0.5f, 0}, {-0.5f, 0}}}},
      {{{{-0.55f, -1}, {0.55f, -1}, {-0.15f, 1}}},
       {{{-0.55f, -0.95f}, {0.5f, -1}, {0, 1}}, {{-0.25f, 0}, {0.5f, -0.05f}}},
       {{{-0.5f, -0.65f}, {-0.5f, -1}, {0.5f, -1}, {0.15f, 0}, {0.1f, 1}}}},
      {{arc(none, {0, -0.5f}, {0.43f, 0.48f}, 0, 4), arc(none, {0, 0.48f}, {0.55f, 0.52f}, 0, 4)},
       {arc(arc(none, {0, -0.5f}, {0.45f, 0.5f}, 4, 1), {0, 0.5f}, {0.5f, 0.5f}, 3, 6, {{0.45f, -0.5f}})},
       {{{-0.5f, -1}, {0.5f, -1}, {0.5f, 1}, {-0.5f, 1}, {-0.5f, -1}}, {{-0.5f, 0}, {0.5f, 0}}}},
      {{arc(none, {0, -0.45f}, {0.5f, 0.53f}, 0, 4, {{0.4f, 1}})},
       {arc(arc(none, {0, -0.45f}, {0.52f, 0.53f}, 0, 4), {-0.1f, -0.1f}, {0.62f, 1.1f}, 0.1f, 1.3f)},
       {{{0.5f, 0}, {-0.5f, 0}, {-0.5f, -1}, {0.5f, -1}, {0.5f, 1}, {-0.5f, 1}}}},
  }};
}

class canvas {
 public:
  // Draws a line with round ends: the coverage of a pixel falls from 1 to 0 within one pixel at the edge of the pen.
  void line(point a, point b, float half_width, float darkness) {
    const float reach = half_width + 0.5f;
    const auto first = [&](float low) { return std::max(0, static_cast<int>(low - reach + 1)); };
    const auto last = [&](float high) {
      return std::min(static_cast<int>(digit_side) - 1, static_cast<int>(high + reach));
    };
    const float dx = b.x - a.x, dy = b.y - a.y, length = dx * dx + dy * dy;
    const float per_length = length > 0 ? 1 / length : 0;
    const int left = first(std::min(a.x, b.x)), right = last(std::max(a.x, b.x));
    for (int row = first(std::min(a.y, b.y)); row <= last(std::max(a.y, b.y)); ++row) {
      const float py = static_cast<float>(row) - a.y;
      float* ink = &ink_[static_cast<std::size_t>(row * digit_side)];
      for (int column = left; column <= right; ++column) {  // without branches, so that it is vectorised
        const float px = static_cast<float>(column) - a.x;
        const float along = std::clamp((px * dx + py * dy) * per_length, 0.0f, 1.0f);
        const float ox = px - along * dx, oy = py - along * dy;
        const float cover = reach - std::sqrt(ox * ox + oy * oy);
        ink[column] = std::max(ink[column], darkness * std::min(1.0f, cover));
      }
    }
  }

  // Adds noise, uniform in [-amplitude, amplitude], to each pixel, and rounds to bytes.
  void develop(random_stream& stream, int amplitude, std::uint8_t* image) const {
    for (std::size_t first = 0; first < pixels; first += 8) {
      std::uint64_t draws = stream.next();  // one draw serves eight pixels
      for (std::size_t pixel = first; pixel < first + 8; ++pixel, draws >>= 8) {
        const int noise = (static_cast<int>(draws & 0xff) * (2 * amplitude + 1) >> 8) - amplitude;
        image[pixel] = static_cast<std::uint8_t>(std::clamp(static_cast<int>(ink_[pixel]) + noise, 0, 255));
      }
    }
  }

 private:
  std::array<float, pixels> ink_{};
};

void draw(const std::vector<glyph>& hands, random_stream stream, std::uint8_t* image) {
  const auto between = [&](double low, double high) { return static_cast<float>(stream.between(low, high)); };
  const glyph& chosen = hands[stream.below(hands.size())];
  const float bend = between(-0.15, 0.15), shear = between(-0.3, 0.3), stretch = between(0.8, 1.15);
  const float half_turn = between(-0.12, 0.12);  // tangent of half the angle: up to 14 degrees
  const float cosine = (1 - half_turn * half_turn) / (1 + half_turn * half_turn);
  const float sine = 2 * half_turn / (1 + half_turn * half_turn);
  const float scale = between(7, 10), centre = (digit_side - 1) / 2.0f;
  const float left = centre + between(-2.25, 2.25), top = centre + between(-2.25, 2.25);
  const float half_width = between(0.7, 1.6), darkness = between(160, 255);
  const auto place = [&](point p) -> point {
    const float x = stretch * (p.x + bend * (p.y * p.y - 0.4f) + shear * p.y);
    return {left + scale * (cosine * x - sine * p.y), top + scale * (sine * x + cosine * p.y)};
  };
  canvas paper;
  for (const stroke& line : chosen) {
    for (std::size_t end = 1; end < line.size(); ++end) {
      paper.line(place(line[end - 1]), place(line[end]), half_width, darkness);
    }
  }
  for (std::uint64_t stray = stream.below(3); stray > 0; --stray) {
    const point from{between(0, digit_side), between(0, digit_side)};
    paper.line(from, {from.x + between(-7, 7), from.y + between(-7, 7)}, between(0.3, 0.9), between(90, 220));
  }
  paper.develop(stream, static_cast<int>(between(5, 51)), image);
}

std::shared_ptr<dataset> drawn(std::uint64_t set, std::int64_t count) {
  static const auto hands = alphabet();
  auto result = std::make_shared<dataset>();
  result->inputs = at::empty({count, 1, digit_side, digit_side}, at::kByte);
  result->targets = at::empty({count}, at::kLong);
  result->classes = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
  auto* image = result->inputs.mutable_data_ptr<std::uint8_t>();
  auto* target = result->targets.mutable_data_ptr<std::int64_t>();
  std::array<std::int64_t, digit_count> label{};
  std::iota(label.begin(), label.end(), 0);
  for (std::int64_t index = 0; index < count; ++index) {
    random_stream stream{keyed(0, purpose::digits, set, static_cast<std::uint64_t>(index))};
    // Every ten images contain each digit once, in random order, so that the set is also balanced when it is read in
    // order.
    const auto slot = static_cast<std::size_t>(index % digit_count);
    std::swap(label[slot], label[slot + stream.below(digit_count - slot)]);
    target[index] = label[slot];
    draw(hands[static_cast<std::size_t>(label[slot])], stream, image + index * pixels);
  }
  return result;
}

}  // namespace

dataset_kind digits() {
  return {.name = "digits",
          .explanation =
              "12,000 training and 2,000 test images of digits, 28 x 28, generated by the program; needs no files",
          .folder = "",
          .sample_shape = {1, digit_side, digit_side},
          .classes = digit_count,
          .published = {{0.1194}, {0.2359}},  // mean and std of the training set, checked by a test
          .load = [](const data_source&) {
            return dataset_pair{drawn(0, 12000), drawn(1, 2000), digits().published, {}};
          }};
}

}  // namespace troupe::data
