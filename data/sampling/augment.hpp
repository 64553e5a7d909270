// Random changes of images during training, with torchvision's meaning and parameters (transforms.v2 on uint8 tensors).
// The order is fixed: crop, flip, rotation, affine, colours (among themselves in a random order, as in ColorJitter);
// scaling and normalisation of the values follow.
//
// First the kind and amount of the changes to an image are drawn, as a function of a key; then they are applied, as a
// function of the image and the draw. Images are uint8 [C, H, W], contiguous. Colour changes require C = 3; for an
// image with C = 1, as for grey images in torchvision, brightness and contrast change and the others do nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace troupe::data {

/// Changes that may be applied to an image. The defaults do nothing.
struct augmentation {
  std::int64_t crop_padding{0};  ///< RandomCrop(size of the image, padding): pixels of black on each side.
  double flip{0};                ///< RandomHorizontalFlip(p).
  double rotation{0};            ///< RandomRotation(degrees): uniform in ± this many; nearest pixel, black outside.
  double shear{0};               ///< RandomAffine(0, shear = degrees): along x, uniform in ± this many.
  std::vector<double> scale{};   ///< RandomAffine(0, scale = (minimum, maximum)); empty for 1.
  /// ColorJitter: factors in 1 ± this value; hue in ± this value.
  double brightness{0}, contrast{0}, saturation{0}, hue{0};

  bool any() const {
    return crop_padding > 0 || flip > 0 || rotation > 0 || shear > 0 || !scale.empty() || brightness > 0 ||
           contrast > 0 || saturation > 0 || hue > 0;
  }
  bool operator==(const augmentation&) const = default;
};

/// The size of an image: C, H, W.
struct image_size {
  std::int64_t channels{0}, height{0}, width{0};

  std::size_t pixels() const { return static_cast<std::size_t>(height * width); }
  std::size_t bytes() const { return static_cast<std::size_t>(channels) * pixels(); }
};

/// The steps of a colour jitter, by torchvision's numbers.
enum class colour : std::uint8_t { brightness, contrast, saturation, hue };

/// Changes drawn for one image. The defaults change nothing.
struct drawn_changes {
  std::int64_t top{0}, left{0};  ///< Position of the crop in the padded image; in [0, 2 · padding].
  bool flip{false};
  double angle{0};            ///< Degrees, counter-clockwise.
  double shear{0}, scale{1};  ///< Degrees along x.
  std::array<colour, 4> order{colour::brightness, colour::contrast, colour::saturation, colour::hue};
  std::array<double, 4> factors{1, 1, 1, 0};  ///< Factors by colour.
};

/// Draws the changes for the image with `key`; see keyed(). Each value is drawn from a fixed place of the key's stream
/// whatever `how` contains: enabling one change does not affect the others.
drawn_changes draw(const augmentation& how, std::uint64_t key);

// Single changes, with the arithmetic of torchvision.transforms.v2.functional on uint8 tensors on the CPU, in single
// precision. `to` and `from` must be different images; functions with one image change it in place.

/// Does pad() with `padding` black pixels on each side, then crop() to the original size.
void crop(const std::uint8_t* from, std::uint8_t* to, const image_size& size, std::int64_t padding, std::int64_t top,
          std::int64_t left);
void flip(std::uint8_t* image, const image_size& size);
/// Does rotate(), or affine() without angle and translation, with the nearest pixel about the image's centre; black
/// outside.
void rotate(const std::uint8_t* from, std::uint8_t* to, const image_size& size, double angle);
void affine(const std::uint8_t* from, std::uint8_t* to, const image_size& size, double shear, double scale);
/// Does adjust_brightness() etc.; factors >= 0, hue in [-0.5, 0.5].
void adjust(std::uint8_t* image, const image_size& size, colour which, double factor);

/// Applies changes to images, one after the other, in memory that it keeps. One thread at a time.
class augmenter {
 public:
  /// `how` must outlive the augmenter.
  augmenter(const augmentation& how, const image_size& size) : how_{how}, size_{size}, spare_(size.bytes()) {}

  /// Applies the drawn changes that `how` enables to `image`, in place.
  void change(std::uint8_t* image, const drawn_changes& by);

 private:
  const augmentation& how_;
  image_size size_;
  std::vector<std::uint8_t> spare_;
};

}  // namespace troupe::data
