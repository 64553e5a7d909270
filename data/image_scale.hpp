// Images brought to one size by Pillow's bilinear scaling, as in its Resample.c. Any thread.
#pragma once

#include "troupe/data/image_codec.hpp"

namespace troupe::data {

/// Scales the shorter side to `size` and cuts the middle [size, size] out, as torchvision's Resize and CenterCrop do on
/// Pillow's images, within a level: by a triangle filter as wide as a pixel of the coarser image, in fixed point, so
/// that all machines have the same bytes.
image scaled_and_cut(const image& from, std::int64_t size);

}  // namespace troupe::data
