#include "troupe/data/formats/image_codec.hpp"

#include "troupe/data/formats/data_error.hpp"
#include "troupe/data/formats/image_decoders.hpp"
#include "troupe/files/input.hpp"

#include <algorithm>
#include <array>
#include <string>

namespace troupe::data {

namespace {

namespace fs = std::filesystem;

// Eight thousand by eight thousand: a few kilobytes of a decompression bomb may claim any size.
constexpr std::int64_t pixels_at_most = std::int64_t{1} << 26;
constexpr std::uint64_t file_bytes_at_most = std::uint64_t{1} << 28;

bool is_png(std::span<const std::uint8_t> begin) {
  constexpr std::array<std::uint8_t, 8> signature{0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  return begin.size() >= signature.size() && std::equal(signature.begin(), signature.end(), begin.begin());
}

bool is_jpeg(std::span<const std::uint8_t> begin) {
  return begin.size() >= 3 && begin[0] == 0xff && begin[1] == 0xd8 && begin[2] == 0xff;
}

// Calls act(input) with the open file. Also throws data_error if the file cannot be read.
template <class Act>
auto decoding(const fs::path& file, Act act) try {
  const files::input input{file};
  if (input.bytes() > file_bytes_at_most) fail_as_image(file, "the file is too large for an image");
  return act(input);
} catch (const files::missing& problem) {
  fail_as_image(file, problem.reason());
} catch (const files::unreadable& problem) {
  throw data_error(problem.what());
}

// Returns what the decoder of the file's format returns.
template <class Png, class Jpeg>
auto by_format(const image_bytes& from, Png png, Jpeg jpeg) {
  if (is_png(from.bytes)) return png(from);
  if (!is_jpeg(from.bytes))
    fail_as_image(from.file, from.bytes.empty() ? "the file is empty" : "the file is neither a PNG nor a JPEG image");
  return jpeg(from);
}

}  // namespace

void fail_as_image(const fs::path& file, const std::string& reason) {
  throw data_error(file.string() + ": " + reason + "; replace the file or remove it from its folder");
}

image_extent plausible(const fs::path& file, std::int64_t height, std::int64_t width) {
  if (height < 1 || width < 1) fail_as_image(file, "the header gives a size of zero");
  if (height > pixels_at_most / width) {
    fail_as_image(file, "the header gives " + std::to_string(width) + " x " + std::to_string(height) +
                            " pixels, more than the limit of " + std::to_string(pixels_at_most >> 20) + " Mi");
  }
  return {height, width};
}

image_extent extent_of_image(const fs::path& file) {
  return decoding(file, [&](const files::input& input) {
    // Cameras put a preview and colour profiles before the size.
    for (std::uint64_t most = std::uint64_t{1} << 15;; most *= 8) {
      std::vector<std::uint8_t> begin(static_cast<std::size_t>(std::min(most, input.bytes())));
      begin.resize(input.read_at(0, begin.data(), begin.size()));
      const image_bytes from{file, begin, most >= input.bytes()};
      if (const auto extent = by_format(from, extent_of_png, extent_of_jpeg)) return *extent;
    }
  });
}

image decode_image(const fs::path& file) {
  return decoding(file, [&](const files::input& input) {
    std::vector<std::uint8_t> content(static_cast<std::size_t>(input.bytes()));
    content.resize(input.read_at(0, content.data(), content.size()));
    return by_format({file, content}, decode_png, decode_jpeg);
  });
}

}  // namespace troupe::data
