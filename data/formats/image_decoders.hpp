// The decoders of the two formats, for image_codec.cpp. Reading the header already refuses every file that decoding
// would refuse, except for damaged pixels.
#pragma once

#include "troupe/data/formats/image_codec.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

namespace troupe::data {

/// The first bytes of a file, or all of them.
struct image_bytes {
  const std::filesystem::path& file;  ///< For messages.
  std::span<const std::uint8_t> bytes;
  bool whole{true};  ///< Whether these are all bytes of the file.
};

/// Returns the size of the image, or nothing if the header is longer than these bytes. Throws data_error if the image
/// cannot be decoded.
std::optional<image_extent> extent_of_png(const image_bytes& begin);
std::optional<image_extent> extent_of_jpeg(const image_bytes& begin);

/// Decodes a whole file. Throws data_error.
image decode_png(const image_bytes& all);
image decode_jpeg(const image_bytes& all);

/// Throws data_error with the file, the reason and the fix.
[[noreturn]] void fail_as_image(const std::filesystem::path& file, const std::string& reason);

/// Returns this size. Throws data_error if it is zero or implausibly large.
image_extent plausible(const std::filesystem::path& file, std::int64_t height, std::int64_t width);

}  // namespace troupe::data
