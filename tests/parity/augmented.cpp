// Changes images as requested on standard input and writes them to standard output. A request is a line with the name
// of a change, C, H, W and its parameters, followed by the bytes of the image.
#include "troupe/data/sampling/augment.hpp"

#include <iostream>
#include <sstream>
#include <string>
#include <vector>

namespace {

using namespace troupe::data;
using bytes = std::vector<std::uint8_t>;

void all_changes(std::istream& parameters, bytes& image, const image_size& size) {
  augmentation how{
      .rotation = 180, .shear = 89, .scale = {0.1, 10}, .brightness = 1, .contrast = 1, .saturation = 1, .hue = 0.5};
  drawn_changes by;
  parameters >> how.crop_padding >> by.top >> by.left >> by.flip >> by.angle >> by.shear >> by.scale;
  for (auto& factor : by.factors) parameters >> factor;
  for (auto& which : by.order) {
    int number = 0;
    parameters >> number;
    which = colour(number);
  }
  augmenter{how, size}.change(image.data(), by);
}

bytes changed(const std::string& name, std::istream& parameters, bytes image, const image_size& size) {
  bytes made(image.size());
  double a = 0, b = 0;
  if (name == "all") {
    all_changes(parameters, image, size);
    return image;
  }
  if (name == "crop") {
    std::int64_t padding = 0, top = 0, left = 0;
    parameters >> padding >> top >> left;
    crop(image.data(), made.data(), size, padding, top, left);
    return made;
  }
  if (name == "flip") {
    flip(image.data(), size);
    return image;
  }
  parameters >> a >> b;
  if (name == "rotate") {
    rotate(image.data(), made.data(), size, a);
    return made;
  }
  if (name == "affine") {
    affine(image.data(), made.data(), size, a, b);
    return made;
  }
  adjust(image.data(), size, colour(static_cast<int>(a)), b);
  return image;
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words{line};
    std::string name;
    image_size size;
    words >> name >> size.channels >> size.height >> size.width;
    bytes image(size.bytes());
    std::cin.read(reinterpret_cast<char*>(image.data()), static_cast<std::streamsize>(image.size()));
    if (!words || !std::cin) return std::cerr << "augmented: \"" << line << "\" is no request\n", 2;
    const auto made = changed(name, words, std::move(image), size);
    std::cout.write(reinterpret_cast<const char*>(made.data()), static_cast<std::streamsize>(made.size()));
  }
}
