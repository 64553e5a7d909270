// Decodes PNG and JPEG files to the same pixels as Pillow's convert("RGB"). The type is detected from the content, not
// the name. Any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace troupe::data {

struct image_extent {
  std::int64_t height{0}, width{0};
  bool operator==(const image_extent&) const = default;
};

/// Returns the size of an image; reads only the header. Throws data_error if the file is missing, not an image, or has
/// an implausible size.
image_extent extent_of_image(const std::filesystem::path& file);

struct image {
  image_extent extent{};
  std::vector<std::uint8_t> pixels{};  ///< [height, width, 3]: red, green, blue.
};

/// Decodes a file. Grey becomes three equal channels, transparency is dropped, 16-bit values keep their upper 8 bits;
/// gamma and orientation in the file are ignored. Throws data_error, naming the file, if it is damaged or truncated.
image decode_image(const std::filesystem::path& file);

}  // namespace troupe::data
