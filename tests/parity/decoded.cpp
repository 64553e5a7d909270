// Decodes images for images.py: `decoded SIZE OUT IMAGE …` writes the pixels of the images, [H, W, 3] each, one after
// another as bytes to the file OUT. The shorter side is scaled to SIZE before the centre is cropped; 0 means unscaled.
#include "troupe/data/formats/image_codec.hpp"
#include "troupe/data/formats/image_scale.hpp"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>

int main(int count, char** words) try {
  if (count < 3) return 2;
  const auto size = std::atoll(words[1]);
  std::ofstream out{words[2], std::ios::binary};
  for (int index = 3; index < count; ++index) {
    auto image = troupe::data::decode_image(words[index]);
    if (size > 0) image = troupe::data::scaled_and_cut(image, size);
    out.write(reinterpret_cast<const char*>(image.pixels.data()), static_cast<std::streamsize>(image.pixels.size()));
  }
  return out ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
