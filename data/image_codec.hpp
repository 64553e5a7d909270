// PNG and JPEG files as pixels, the same ones that Pillow's convert("RGB") gives. Which of the two a file is says its
// content, not its name. Any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace troupe::data {

struct image_extent {
  std::int64_t height{0}, width{0};
  bool operator==(const image_extent&) const = default;
};

/// Reads no more than the header. Throws data_error where the file is missing, no image, or claims an absurd size.
image_extent extent_of_image(const std::filesystem::path& file);

struct image {
  image_extent extent{};
  std::vector<std::uint8_t> pixels{};  ///< [height, width, 3]: red, green, blue.
};

/// Decodes a file. Grey becomes three equal channels, transparency is dropped, 16 bits are cut to their upper 8; gamma
/// and orientation that a file may state are not looked at. Throws data_error, naming the file, where it is damaged or
/// truncated.
image decode_image(const std::filesystem::path& file);

}  // namespace troupe::data
