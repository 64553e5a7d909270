// Random changes of images while they are trained on, with torchvision's meaning and parameters (transforms.v2 on uint8
// tensors). Their order is fixed: crop, flip, rotation, affine, colour; then come the values' scaling and
// normalisation.
#pragma once

#include <cstdint>
#include <span>
#include <string>
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

}  // namespace troupe::data
