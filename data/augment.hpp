// Random changes of images while they are trained on, with torchvision's meaning and parameters (transforms.v2 on uint8
// tensors). Their order is fixed: crop, flip, rotation, affine, colours (among themselves in an order that is drawn, as
// ColorJitter's is); then come the values' scaling and normalisation.
//
// What is done to an image and how much of it is drawn first, as a function of a key; then it is done, as a function
// of the image and of what was drawn. Images are uint8 [C, H, W], contiguous; colours want C = 3, and those of an image
// with C = 1 are what torchvision makes of grey ones: brightness and contrast change, the others do nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace troupe::data {

/// What may be done to an image. The defaults do nothing.
struct augmentation {
  std::int64_t crop_padding{0};  ///< RandomCrop(size of the image, padding): pixels of black on each side.
  double flip{0};                ///< RandomHorizontalFlip(p).
  double rotation{0};            ///< RandomRotation(degrees): uniform in ± so many; nearest pixel, black outside.
  double shear{0};               ///< RandomAffine(0, shear = degrees): along x, uniform in ± so many.
  std::vector<double> scale{};   ///< RandomAffine(0, scale = (least, most)); empty: 1.
  double brightness{0}, contrast{0}, saturation{0}, hue{0};  ///< ColorJitter: factors in 1 ± so much; hue in ± so much.

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

/// What was drawn for one image. The defaults change nothing.
struct drawn_changes {
  std::int64_t top{0}, left{0};  ///< Of the crop, in the padded image; in [0, 2 · padding].
  bool flip{false};
  double angle{0};            ///< Degrees, counter-clockwise.
  double shear{0}, scale{1};  ///< Degrees along x.
  std::array<colour, 4> order{colour::brightness, colour::contrast, colour::saturation, colour::hue};
  std::array<double, 4> factors{1, 1, 1, 0};  ///< By colour.
};

/// Draws for the image with `key`; see keyed(). Whatever `how` says, a value is drawn from the same place of the key's
/// stream: to switch one change on leaves the others as they were.
drawn_changes draw(const augmentation& how, std::uint64_t key);

// Each change alone, with the arithmetic of torchvision.transforms.v2.functional on uint8 tensors of the CPU, in single
// precision. `to` is another image than `from`; where there is one, it is changed in place.

/// pad() with `padding` pixels of black on each side, and crop() to the size it had.
void crop(const std::uint8_t* from, std::uint8_t* to, const image_size& size, std::int64_t padding, std::int64_t top,
          std::int64_t left);
void flip(std::uint8_t* image, const image_size& size);
/// rotate(), and affine() without angle and translation: the nearest pixel, about the image's centre; black outside.
void rotate(const std::uint8_t* from, std::uint8_t* to, const image_size& size, double angle);
void affine(const std::uint8_t* from, std::uint8_t* to, const image_size& size, double shear, double scale);
/// adjust_brightness() and so on: factors >= 0; of hue in [-0.5, 0.5].
void adjust(std::uint8_t* image, const image_size& size, colour which, double factor);

/// Makes changes to one image after the other, in memory that it keeps. One thread at a time.
class augmenter {
 public:
  /// `how` must outlive it.
  augmenter(const augmentation& how, const image_size& size) : how_{how}, size_{size}, spare_(size.bytes()) {}

  /// Does what was drawn to `image`, in place, as far as `how` asks for it.
  void change(std::uint8_t* image, const drawn_changes& by);

 private:
  const augmentation& how_;
  image_size size_;
  std::vector<std::uint8_t> spare_;
};

}  // namespace troupe::data
