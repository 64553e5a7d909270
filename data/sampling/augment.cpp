#include "troupe/data/sampling/augment.hpp"

#include "troupe/data/random/random.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <utility>

namespace troupe::data {

namespace {

/// The matrix [[a, b], [c, d]] that maps a pixel of the target to its place in the source, both counted from the
/// centre.
struct inverse_matrix {
  double a{1}, b{0}, c{0}, d{1};
};

double radians(double degrees) {
  return degrees * (std::numbers::pi / 180.0);
}

// torchvision's _get_inverse_affine_matrix for a centre of 0, no translation, and a shear along x.
inverse_matrix inverse_affine(double angle, double scale, double shear) {
  const double turn = radians(angle), tan_shear = std::tan(radians(shear));
  const double a = std::cos(turn), b = -(a * tan_shear + std::sin(turn));
  const double c = std::sin(turn), d = std::cos(turn) - c * tan_shear;
  return {d / scale, -b / scale, -c / scale, a / scale};
}

/// One coordinate of torchvision's grid, and grid_sample's mapping of it from [-1, 1] to the nearest pixel.
class nearest {
 public:
  nearest(double along_x, double along_y, std::int64_t size)
      : along_x_(static_cast<float>(along_x) / (0.5f * static_cast<float>(size))),
        along_y_(static_cast<float>(along_y) / (0.5f * static_cast<float>(size))),
        half_(static_cast<float>(size) / 2) {}

  /// `x` and `y` count from the centre. Returns the pixel, which may lie outside.
  float at(float x, float y) const {
    const float place = x * along_x_ + y * along_y_;
    const float pixel = (place + 1) * half_ - 0.5f;
    // Rounds to the nearest integer, halves to even: a float of this size has no bits for a fraction.
    constexpr float integers = 0x1.8p23f;
    return (pixel + integers) - integers;
  }

 private:
  float along_x_, along_y_, half_;
};

void resample(const std::uint8_t* from, std::uint8_t* to, const image_size& size, const inverse_matrix& by) {
  const nearest column{by.a, by.b, size.width}, row{by.c, by.d, size.height};
  const auto width = static_cast<float>(size.width), height = static_cast<float>(size.height);
  const float left = (1 - width) * 0.5f, top = (1 - height) * 0.5f;
  const auto pixels = static_cast<std::ptrdiff_t>(size.pixels());
  for (std::int64_t i = 0; i < size.height; ++i) {
    for (std::int64_t j = 0; j < size.width; ++j, ++to) {
      const float x = left + static_cast<float>(j), y = top + static_cast<float>(i);
      const float u = column.at(x, y), v = row.at(x, y);
      const bool inside = u >= 0 && u < width && v >= 0 && v < height;
      const std::ptrdiff_t place =
          inside ? static_cast<std::ptrdiff_t>(v) * size.width + static_cast<std::ptrdiff_t>(u) : 0;
      for (std::ptrdiff_t channel = 0; channel < size.channels; ++channel)
        to[channel * pixels] = inside ? from[channel * pixels + place] : std::uint8_t{0};
    }
  }
}

// Does clamp(0, 255) and a cast that truncates.
std::uint8_t byte_of(float value) {
  return static_cast<std::uint8_t>(std::clamp(value, 0.0f, 255.0f));
}

template <class Function>
void map_bytes(std::uint8_t* image, std::size_t bytes, const Function& of) {
  std::array<std::uint8_t, 256> table{};
  for (std::size_t byte = 0; byte < table.size(); ++byte) table[byte] = of(static_cast<float>(byte));
  for (std::size_t i = 0; i < bytes; ++i) image[i] = table[image[i]];
}

/// torchvision's _rgb_to_grayscale_image, rounded down as its callers do. ATen's a + α · b on the CPU is one fused
/// operation.
struct grey {
  std::array<float, 256> red{};

  grey() {
    for (std::size_t byte = 0; byte < red.size(); ++byte) red[byte] = static_cast<float>(byte) * 0.2989f;
  }

  float of(std::uint8_t r, std::uint8_t g, std::uint8_t b) const {
    const float red_and_green = std::fma(static_cast<float>(g), 0.587f, red[r]);
    return static_cast<float>(static_cast<int>(std::fma(static_cast<float>(b), 0.114f, red_and_green)));
  }
};

const grey& greys() {
  static const grey instance;
  return instance;
}

float mean_grey(const std::uint8_t* image, const image_size& size) {
  const std::size_t pixels = size.pixels();
  double sum = 0;
  for (std::size_t i = 0; i < pixels; ++i)
    sum += size.channels == 3 ? greys().of(image[i], image[pixels + i], image[2 * pixels + i])
                              : static_cast<float>(image[i]);
  return static_cast<float>(sum) / static_cast<float>(pixels);
}

void adjust_brightness(std::uint8_t* image, const image_size& size, double factor) {
  const auto by = static_cast<float>(factor);
  map_bytes(image, size.bytes(), [by](float value) { return byte_of(value * by); });
}

void adjust_contrast(std::uint8_t* image, const image_size& size, double factor) {
  const auto by = static_cast<float>(factor), rest = static_cast<float>(1.0 - factor);
  const float mean = mean_grey(image, size);
  map_bytes(image, size.bytes(), [=](float value) { return byte_of(std::fma(mean, rest, value * by)); });
}

void adjust_saturation(std::uint8_t* image, const image_size& size, double factor) {
  const auto by = static_cast<float>(factor), rest = static_cast<float>(1.0 - factor);
  const std::size_t pixels = size.pixels();
  for (std::size_t i = 0; i < pixels; ++i) {
    std::uint8_t* const channel[] = {image + i, image + pixels + i, image + 2 * pixels + i};
    const float in_grey = greys().of(*channel[0], *channel[1], *channel[2]);
    for (std::uint8_t* const value : channel)
      *value = byte_of(std::fma(in_grey, rest, static_cast<float>(*value) * by));
  }
}

float part_behind_the_point(float value) {
  return value - static_cast<float>(static_cast<int>(value));
}

// Does torchvision's _rgb_to_hsv, changes the hue, and does _hsv_to_rgb, for one pixel.
void adjust_hue(std::uint8_t& red, std::uint8_t& green, std::uint8_t& blue, float by) {
  constexpr auto level = static_cast<float>(1.0 / 255);
  const float r = static_cast<float>(red) * level, g = static_cast<float>(green) * level,
              b = static_cast<float>(blue) * level;
  const float most = std::max({r, g, b}), range = most - std::min({r, g, b});
  const bool is_grey = range == 0;
  const float s = range / (is_grey ? 1 : most), divisor = is_grey ? 1 : range;
  const float rc = (most - r) / divisor, gc = (most - g) / divisor, bc = (most - b) / divisor;
  const float sixths = most == r ? bc - gc : most == g ? rc + 2 - bc : gc + 4 - rc;
  float h = part_behind_the_point(sixths * static_cast<float>(1.0 / 6.0) + 1);
  h = part_behind_the_point(h + by);
  if (h < 0) h += 1;

  const float h6 = h * 6;
  const int i = static_cast<int>(h6);
  const float f = h6 - static_cast<float>(i), sf = s * f, without_s = 1 - s;
  const auto value = [most](float share) { return std::clamp(share * most, 0.0f, 1.0f); };
  const float p = value(without_s), q = value(1 - sf), t = value(sf + without_s);
  const auto put = [&](float new_red, float new_green, float new_blue) {
    constexpr auto levels = static_cast<float>(256 - 1e-3);
    red = static_cast<std::uint8_t>(new_red * levels);
    green = static_cast<std::uint8_t>(new_green * levels);
    blue = static_cast<std::uint8_t>(new_blue * levels);
  };
  switch (i % 6) {
    case 0:
      return put(most, t, p);
    case 1:
      return put(q, most, p);
    case 2:
      return put(p, most, t);
    case 3:
      return put(p, q, most);
    case 4:
      return put(t, p, most);
    default:
      return put(most, p, q);
  }
}

}  // namespace

drawn_changes draw(const augmentation& how, std::uint64_t key) {
  random_stream stream{key};
  // Drawn in single precision, as in torchvision.
  const auto between = [&stream](double low, double high) {
    return static_cast<double>(static_cast<float>(stream.between(low, high)));
  };
  const auto factor = [&between](double most) { return between(std::max(0.0, 1 - most), 1 + most); };
  drawn_changes changes;
  const auto places = static_cast<std::uint64_t>(2 * how.crop_padding + 1);
  changes.top = static_cast<std::int64_t>(stream.below(places));
  changes.left = static_cast<std::int64_t>(stream.below(places));
  changes.flip = stream.between(0, 1) < how.flip;
  changes.angle = between(-how.rotation, how.rotation);
  changes.scale = how.scale.size() == 2 ? between(how.scale[0], how.scale[1]) : between(1, 1);
  changes.shear = between(-how.shear, how.shear);
  for (std::size_t last = changes.order.size(); last > 1; --last)
    std::swap(changes.order[last - 1], changes.order[stream.below(last)]);
  changes.factors = {factor(how.brightness), factor(how.contrast), factor(how.saturation), 0};
  changes.factors[3] = between(-how.hue, how.hue);
  return changes;
}

void crop(const std::uint8_t* from, std::uint8_t* to, const image_size& size, std::int64_t padding, std::int64_t top,
          std::int64_t left) {
  const auto width = static_cast<std::size_t>(size.width);
  const std::int64_t shift = left - padding;  // shift of the visible part to the left
  const std::size_t black_before = static_cast<std::size_t>(std::clamp<std::int64_t>(-shift, 0, size.width));
  const std::size_t black_behind = static_cast<std::size_t>(std::clamp<std::int64_t>(shift, 0, size.width));
  const std::size_t seen = width - black_before - black_behind;
  for (std::int64_t channel = 0; channel < size.channels; ++channel) {
    for (std::int64_t i = 0; i < size.height; ++i, to += width) {
      const std::int64_t row = i + top - padding;
      if (row < 0 || row >= size.height) {
        std::memset(to, 0, width);
        continue;
      }
      const std::uint8_t* source = from + (channel * size.height + row) * size.width + black_behind;
      std::memset(to, 0, black_before);
      std::memcpy(to + black_before, source, seen);
      std::memset(to + black_before + seen, 0, black_behind);
    }
  }
}

void flip(std::uint8_t* image, const image_size& size) {
  for (std::int64_t row = 0; row < size.channels * size.height; ++row, image += size.width)
    std::reverse(image, image + size.width);
}

void rotate(const std::uint8_t* from, std::uint8_t* to, const image_size& size, double angle) {
  // As Python's %: the result is in [0, 360).
  double turn = std::fmod(angle, 360.0);
  if (turn < 0) turn += 360;
  resample(from, to, size, inverse_affine(-turn, 1, 0));
}

void affine(const std::uint8_t* from, std::uint8_t* to, const image_size& size, double shear, double scale) {
  resample(from, to, size, inverse_affine(0, scale, shear));
}

void adjust(std::uint8_t* image, const image_size& size, colour which, double factor) {
  switch (which) {
    case colour::brightness:
      return adjust_brightness(image, size, factor);
    case colour::contrast:
      return adjust_contrast(image, size, factor);
    case colour::saturation:
      if (size.channels == 3) adjust_saturation(image, size, factor);
      return;
    case colour::hue:
      if (size.channels != 3) return;
      for (std::size_t i = 0, pixels = size.pixels(); i < pixels; ++i)
        adjust_hue(image[i], image[pixels + i], image[2 * pixels + i], static_cast<float>(factor));
  }
}

void augmenter::change(std::uint8_t* image, const drawn_changes& by) {
  // Functions that write a new image read a copy of the old one.
  const auto anew = [&](const auto& make) {
    std::memcpy(spare_.data(), image, spare_.size());
    make(spare_.data(), image);
  };
  if (how_.crop_padding > 0)
    anew([&](const auto* from, auto* to) { crop(from, to, size_, how_.crop_padding, by.top, by.left); });
  if (by.flip) flip(image, size_);
  if (how_.rotation > 0) anew([&](const auto* from, auto* to) { rotate(from, to, size_, by.angle); });
  if (how_.shear > 0 || !how_.scale.empty())
    anew([&](const auto* from, auto* to) { affine(from, to, size_, by.shear, by.scale); });
  const std::array<double, 4> most{how_.brightness, how_.contrast, how_.saturation, how_.hue};
  for (const colour which : by.order) {
    const auto index = static_cast<std::size_t>(which);
    if (most[index] > 0) adjust(image, size_, which, by.factors[index]);
  }
}

}  // namespace troupe::data
