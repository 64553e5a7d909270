// Scales images to one size with Pillow's bilinear scaling, as in its Resample.c. Any thread.
#pragma once

#include "troupe/data/formats/image_codec.hpp"

namespace troupe::data {

/// Scales the shorter side to `size` and cuts out the middle [size, size], like torchvision's Resize and CenterCrop on
/// Pillow images, to within one level: with a triangle filter as wide as a pixel of the coarser image, in fixed point,
/// so that all machines produce the same bytes.
image scaled_and_cut(const image& from, std::int64_t size);

}  // namespace troupe::data
