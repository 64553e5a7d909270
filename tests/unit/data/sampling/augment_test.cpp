// Changes of images, computed by hand. tests/parity/augment.py compares each with torchvision's.
#include "troupe/data/sampling/augment.hpp"

#include "tests/support/doctest.hpp"

#include "troupe/data/random/random.hpp"
#include "troupe/data/sampling/batch.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <vector>

namespace augment_test {

using namespace troupe::data;

namespace {

using bytes = std::vector<std::uint8_t>;

constexpr image_size three_by_three{1, 3, 3};

// 1 2 3
// 4 5 6
// 7 8 9
const bytes nine{1, 2, 3, 4, 5, 6, 7, 8, 9};

augmentation everything() {
  return {.crop_padding = 4,
          .flip = 0.5,
          .rotation = 10,
          .shear = 5,
          .scale = {0.8, 1.2},
          .brightness = 0.2,
          .contrast = 0.3,
          .saturation = 0.4,
          .hue = 0.1};
}

/// Draws for `count` samples of an epoch.
std::vector<drawn_changes> draws(const augmentation& how, std::uint64_t count) {
  std::vector<drawn_changes> made;
  for (std::uint64_t sample = 0; sample < count; ++sample)
    made.push_back(draw(how, keyed(7, purpose::augmentation, 3, sample)));
  return made;
}

double correlation(const std::vector<double>& a, const std::vector<double>& b) {
  const auto n = static_cast<double>(a.size());
  const double mean_a = std::accumulate(a.begin(), a.end(), 0.0) / n;
  const double mean_b = std::accumulate(b.begin(), b.end(), 0.0) / n;
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ab += (a[i] - mean_a) * (b[i] - mean_b);
    aa += (a[i] - mean_a) * (a[i] - mean_a);
    bb += (b[i] - mean_b) * (b[i] - mean_b);
  }
  return ab / std::sqrt(aa * bb);
}

}  // namespace

TEST_CASE("a crop moves the image and fills with black") {
  bytes made(9, 77);
  crop(nine.data(), made.data(), three_by_three, 1, 1, 1);
  CHECK(made == nine);
  crop(nine.data(), made.data(), three_by_three, 1, 0, 2);
  CHECK(made == bytes{0, 0, 0, 2, 3, 0, 5, 6, 0});
  crop(nine.data(), made.data(), three_by_three, 1, 2, 0);
  CHECK(made == bytes{0, 4, 5, 0, 7, 8, 0, 0, 0});
  crop(nine.data(), made.data(), three_by_three, 5, 10, 5);  // beyond the image
  CHECK(made == bytes(9, 0));
}

TEST_CASE("a flip mirrors each row of each channel") {
  bytes image{1, 2, 3, 4, 5, 6, 7, 8};
  flip(image.data(), {2, 2, 2});
  CHECK(image == bytes{2, 1, 4, 3, 6, 5, 8, 7});
}

TEST_CASE("a quarter of a turn is counter-clockwise, and four are none") {
  bytes made(9);
  rotate(nine.data(), made.data(), three_by_three, 90);
  CHECK(made == bytes{3, 6, 9, 2, 5, 8, 1, 4, 7});
  rotate(nine.data(), made.data(), three_by_three, -180);
  CHECK(made == bytes{9, 8, 7, 6, 5, 4, 3, 2, 1});
  rotate(nine.data(), made.data(), three_by_three, 360);
  CHECK(made == nine);
}

TEST_CASE("a corner that turns out of the image leaves black") {
  const image_size size{1, 9, 9};
  const bytes white(81, 255);
  bytes made(81);
  rotate(white.data(), made.data(), size, 45);
  CHECK(made[0] == 0);
  CHECK(made[8] == 0);
  CHECK(made[4 * 9 + 4] == 255);
}

TEST_CASE("half the scale shows the image small in the middle, a shear moves its rows apart") {
  const image_size size{1, 4, 4};
  const bytes image{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  bytes made(16);
  affine(image.data(), made.data(), size, 0, 1);
  CHECK(made == image);
  // Pixels at ±0.5 from the centre are taken from ±1: means of 0.5 and 1.5, rounded to even.
  affine(image.data(), made.data(), size, 0, 0.5);
  CHECK(std::count(made.begin(), made.end(), 0) == 12);
  affine(image.data(), made.data(), size, 45, 1);  // shifts each row by its distance from the centre
  CHECK(made[0 * 4 + 0] == 0);
  CHECK(made[0 * 4 + 3] == 3);
  CHECK(made[3 * 4 + 0] == 15);
  CHECK(made[3 * 4 + 3] == 0);
}

TEST_CASE("colours are cut off at both ends, and rounded down") {
  bytes grey{0, 101, 200, 255};
  adjust(grey.data(), {1, 2, 2}, colour::brightness, 1.5);
  CHECK(grey == bytes{0, 151, 255, 255});
  bytes flat{10, 20, 30, 40};
  adjust(flat.data(), {1, 2, 2}, colour::contrast, 0);  // the mean
  CHECK(flat == bytes(4, 25));
  bytes untouched = grey;
  adjust(untouched.data(), {1, 2, 2}, colour::saturation, 0);
  adjust(untouched.data(), {1, 2, 2}, colour::hue, 0.5);
  CHECK(untouched == grey);
  bytes red{255, 0, 0};
  adjust(red.data(), {3, 1, 1}, colour::hue, 1.0 / 3);
  CHECK(red == bytes{0, 255, 0});
  adjust(red.data(), {3, 1, 1}, colour::saturation, 0);
  CHECK(red == bytes(3, 149));  // 0.587 · 255
}

TEST_CASE("draws are a function of the key, and lie where they are asked for") {
  const auto how = everything();
  for (std::uint64_t key = 0; key < 20; ++key) {
    CHECK(draw(how, key).angle == draw(how, key).angle);
    CHECK(draw(how, key).order == draw(how, key).order);
  }
  for (const auto& one : draws(how, 2000)) {
    CHECK(one.top >= 0);
    CHECK(one.top <= 8);
    CHECK(one.left >= 0);
    CHECK(one.left <= 8);
    CHECK(std::abs(one.angle) <= 10);
    CHECK(std::abs(one.shear) <= 5);
    CHECK(std::abs(one.scale - 1) <= 0.2001);
    CHECK(std::abs(one.factors[0] - 1) <= 0.2001);
    CHECK(std::abs(one.factors[1] - 1) <= 0.3001);
    CHECK(std::abs(one.factors[2] - 1) <= 0.4001);
    CHECK(std::abs(one.factors[3]) <= 0.1001);
  }
  const auto none = draw({}, 5);
  CHECK(none.angle == 0);
  CHECK(none.scale == 1);
  CHECK_FALSE(none.flip);
  CHECK(none.factors == std::array<double, 4>{1, 1, 1, 0});
  CHECK(draw({.brightness = 3}, 5).factors[0] >= 0);
}

TEST_CASE("to switch one change on leaves the draws of the others") {
  auto more = everything();
  const auto before = draw(more, 99);
  more.flip = 0;
  more.hue = 0;
  more.scale = {};
  const auto after = draw(more, 99);
  CHECK(after.angle == before.angle);
  CHECK(after.shear == before.shear);
  CHECK(after.top == before.top);
  CHECK(after.order == before.order);
  CHECK(after.factors[2] == before.factors[2]);
}

TEST_CASE("draws are spread evenly, and independent of each other") {
  constexpr std::uint64_t count = 20'000;
  const auto all = draws(everything(), count);
  std::map<std::int64_t, int> tops, lefts;
  std::map<std::array<colour, 4>, int> orders;
  std::vector<std::vector<double>> columns(10);
  for (const auto& one : all) {
    ++tops[one.top];
    ++lefts[one.left];
    ++orders[one.order];
    const double values[] = {static_cast<double>(one.top),
                             static_cast<double>(one.left),
                             one.flip ? 1.0 : 0.0,
                             one.angle,
                             one.scale,
                             one.shear,
                             one.factors[0],
                             one.factors[1],
                             one.factors[2],
                             one.factors[3]};
    for (std::size_t i = 0; i < columns.size(); ++i) columns[i].push_back(values[i]);
  }
  // Five standard deviations of a binomial count.
  const auto even = [](const auto& counts, std::size_t kinds) {
    REQUIRE(counts.size() == kinds);
    const double p = 1.0 / static_cast<double>(kinds), n = count;
    for (const auto& [what, times] : counts) CHECK(std::abs(times - n * p) < 5 * std::sqrt(n * p * (1 - p)));
  };
  even(tops, 9);
  even(lefts, 9);
  even(orders, 24);
  const auto flips = std::accumulate(columns[2].begin(), columns[2].end(), 0.0);
  CHECK(std::abs(flips - 0.5 * count) < 5 * std::sqrt(0.25 * count));
  const auto mean_angle = std::accumulate(columns[3].begin(), columns[3].end(), 0.0) / count;
  CHECK(std::abs(mean_angle) < 5 * 10 / std::sqrt(3.0 * count));
  for (std::size_t i = 0; i < columns.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      CAPTURE(i);
      CAPTURE(j);
      CHECK(std::abs(correlation(columns[i], columns[j])) < 5 / std::sqrt(static_cast<double>(count)));
    }
}

TEST_CASE("a batch is augmented before its values are scaled, by epoch and sample") {
  const dataset set{at::arange(2 * 3 * 8 * 8).remainder(251).to(at::kByte).reshape({2, 3, 8, 8}),
                    at::tensor({0, 1}, at::kLong),
                    {"a", "b"}};
  const auto how = everything();
  const normalisation scale{{0.5, 0.5, 0.5}, {0.5, 0.25, 0.5}};
  const auto plain = make_batch(set, scale, {0, 1});
  const auto one = make_batch(set, scale, {0, 1}, {&how, 1, 0}), again = make_batch(set, scale, {1, 0}, {&how, 1, 0});
  CHECK(one.inputs[0].equal(again.inputs[1]));  // wherever the sample lies in a batch
  CHECK_FALSE(one.inputs.equal(plain.inputs));
  CHECK_FALSE(one.inputs.equal(make_batch(set, scale, {0, 1}, {&how, 1, 1}).inputs));
  CHECK_FALSE(one.inputs.equal(make_batch(set, scale, {0, 1}, {&how, 2, 0}).inputs));
  const augmentation nothing;
  CHECK(make_batch(set, scale, {0, 1}, {&nothing, 1, 0}).inputs.equal(plain.inputs));

  auto bytes_of_one = set.inputs[1].clone();
  augmenter{how, {3, 8, 8}}.change(bytes_of_one.mutable_data_ptr<std::uint8_t>(),
                                   draw(how, keyed(1, purpose::augmentation, 0, 1)));
  const dataset changed{bytes_of_one.unsqueeze(0), at::tensor({1}, at::kLong), {"a", "b"}};
  CHECK(make_batch(changed, scale, {0}).inputs[0].equal(one.inputs[1]));
}

}  // namespace augment_test
