#include "troupe/data/image_codec.hpp"

#include "troupe/data/dataset.hpp"

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstring>
#include <fstream>
#include <memory>
#include <png.h>
#include <span>
#include <string_view>
#include <turbojpeg.h>

namespace troupe::data {

namespace {

namespace fs = std::filesystem;

using bytes = std::vector<std::uint8_t>;

// Eight thousand by eight thousand: a few kilobytes of a decompression bomb may claim any size.
constexpr std::int64_t pixels_at_most = std::int64_t{1} << 26;
constexpr std::uintmax_t file_bytes_at_most = std::uintmax_t{1} << 28;

constexpr std::array<std::uint8_t, 8> png_signature{0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};

[[noreturn]] void fail(const fs::path& file, const std::string& reason) {
  throw data_error(file.string() + ": " + reason + "; replace the file or remove it from its folder");
}

bool is_png(std::span<const std::uint8_t> begin) {
  return begin.size() >= png_signature.size() && std::equal(png_signature.begin(), png_signature.end(), begin.begin());
}

bool is_jpeg(std::span<const std::uint8_t> begin) {
  return begin.size() >= 3 && begin[0] == 0xff && begin[1] == 0xd8 && begin[2] == 0xff;
}

[[noreturn]] void fail_as_neither(const fs::path& file, std::uintmax_t size) {
  fail(file, size == 0 ? "the file is empty" : "the file is neither a PNG nor a JPEG image");
}

std::ifstream opened(const fs::path& file) {
  std::error_code error;
  if (!fs::exists(file, error)) fail(file, "no such file");
  if (!fs::is_regular_file(file, error)) fail(file, "not a regular file");
  std::ifstream stream{file, std::ios::binary};
  if (!stream) throw data_error(file.string() + ": cannot read the file; check its permissions");
  return stream;
}

image_extent sane(const fs::path& file, std::int64_t height, std::int64_t width) {
  if (height < 1 || width < 1) fail(file, "the header gives a size of zero");
  if (height > pixels_at_most / width) {
    fail(file, "the header gives " + std::to_string(width) + " x " + std::to_string(height) +
                   " pixels, more than the limit of " + std::to_string(pixels_at_most >> 20) + " Mi");
  }
  return {height, width};
}

std::int64_t big_endian(std::span<const std::uint8_t> digits) {
  std::int64_t value = 0;
  for (const auto digit : digits) value = value << 8 | digit;
  return value;
}

// PNG -----------------------------------------------------------------------------------------------------------------

image_extent extent_of_png(const fs::path& file, std::ifstream& stream) {
  std::array<std::uint8_t, 16> chunk{};  // its length, its name, and of IHDR width and height
  if (!stream.read(reinterpret_cast<char*>(chunk.data()), chunk.size())) fail(file, "the file is truncated");
  if (std::memcmp(chunk.data() + 4, "IHDR", 4) != 0)
    fail(file, "the file is damaged: a PNG image must begin with its size");
  const std::span all{chunk};
  return sane(file, big_endian(all.subspan(12, 4)), big_endian(all.subspan(8, 4)));
}

// What libpng's callbacks share.
struct png_input {
  std::span<const std::uint8_t> left;
  std::array<char, 160> complaint{};
};

extern "C" {

void troupe_png_error(png_structp png, png_const_charp text) {
  auto& input = *static_cast<png_input*>(png_get_error_ptr(png));
  std::strncpy(input.complaint.data(), text, input.complaint.size() - 1);
  png_longjmp(png, 1);
}

void troupe_png_warning(png_structp, png_const_charp) {}

void troupe_png_read(png_structp png, png_bytep into, png_size_t count) {
  auto& input = *static_cast<png_input*>(png_get_io_ptr(png));
  if (count > input.left.size()) png_error(png, "the file is truncated");
  std::memcpy(into, input.left.data(), count);
  input.left = input.left.subspan(count);
}
}

// Without objects to destroy: libpng jumps out of it.
bool decode_png(png_structp png, png_infop info, const image_extent& wanted, std::uint8_t* pixels, png_bytep* rows) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  png_read_info(png, info);
  if (png_get_image_width(png, info) != static_cast<png_uint_32>(wanted.width) ||
      png_get_image_height(png, info) != static_cast<png_uint_32>(wanted.height))
    png_error(png, "its size differs from the size in its header");
  png_set_palette_to_rgb(png);
  png_set_expand_gray_1_2_4_to_8(png);
  png_set_strip_16(png);
  png_set_gray_to_rgb(png);
  png_set_strip_alpha(png);
  png_set_interlace_handling(png);
  png_read_update_info(png, info);
  const auto stride = static_cast<std::size_t>(3 * wanted.width);
  if (png_get_rowbytes(png, info) != stride) png_error(png, "its pixel format is unknown");
  for (std::int64_t row = 0; row < wanted.height; ++row) rows[row] = pixels + static_cast<std::size_t>(row) * stride;
  png_read_image(png, rows);
  png_read_end(png, nullptr);
  return true;
}

image decoded_png(const fs::path& file, const bytes& content) {
  if (content.size() < 24) fail(file, "the file is truncated");
  const std::span all{content};
  image made{sane(file, big_endian(all.subspan(20, 4)), big_endian(all.subspan(16, 4))), {}};
  made.pixels.resize(static_cast<std::size_t>(3 * made.extent.height * made.extent.width));
  std::vector<png_bytep> rows(static_cast<std::size_t>(made.extent.height));
  png_input input{.left = all};
  png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &input, troupe_png_error, troupe_png_warning);
  if (png == nullptr) throw std::bad_alloc{};
  png_infop info = png_create_info_struct(png);
  const auto destroy = [&](png_structp*) { png_destroy_read_struct(&png, &info, nullptr); };
  const std::unique_ptr<png_structp, decltype(destroy)> destroyed{&png, destroy};
  if (info == nullptr) throw std::bad_alloc{};
  png_set_read_fn(png, &input, troupe_png_read);
  png_set_user_limits(png, static_cast<png_uint_32>(pixels_at_most), static_cast<png_uint_32>(pixels_at_most));
  if (!decode_png(png, info, made.extent, made.pixels.data(), rows.data())) {
    const std::string_view why{input.complaint.data()};
    fail(file,
         why == "the file is truncated" ? std::string{why} : "the file is damaged (libpng: " + std::string{why} + ")");
  }
  return made;
}

// JPEG ----------------------------------------------------------------------------------------------------------------

// The segments up to the one that states the size.
image_extent extent_of_jpeg(const fs::path& file, std::ifstream& stream) {
  const auto next = [&] {
    const int byte = stream.get();
    if (byte < 0) fail(file, "the file is truncated within its header");
    return static_cast<std::uint8_t>(byte);
  };
  const auto word = [&] {
    const auto high = next();
    return std::int64_t{high} << 8 | next();
  };
  for (;;) {
    std::uint8_t marker = next();
    if (marker != 0xff) fail(file, "the file is damaged: its header lacks a JPEG marker where one is required");
    while (marker == 0xff) marker = next();
    const bool alone = marker == 0x01 || (marker >= 0xd0 && marker <= 0xd8);
    if (alone) continue;
    if (marker == 0xd9 || marker == 0xda) fail(file, "the file is damaged: its JPEG header does not give a size");
    const std::int64_t length = word();
    const bool states_size = marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
    if (states_size) {
      next();  // bits of a sample
      const std::int64_t height = word(), width = word();
      return sane(file, height, width);
    }
    if (length < 2) fail(file, "the file is damaged: a segment of its JPEG header has no length");
    stream.seekg(length - 2, std::ios::cur);
  }
}

struct tj_closed {
  void operator()(void* handle) const { tjDestroy(handle); }
};

// Real photographs have bytes too many here and there, which every decoder passes over.
bool is_harmless(std::string_view warning) {
  return warning.find("extraneous bytes") != std::string_view::npos;
}

// Inks as Adobe writes them, inverted, to what Pillow makes of them.
void to_rgb(const bytes& inks, bytes& pixels) {
  const auto times = [](int a, int b) {
    const int product = a * b + 128;
    return ((product >> 8) + product) >> 8;
  };
  for (std::size_t pixel = 0; pixel < pixels.size() / 3; ++pixel) {
    const std::uint8_t* ink = inks.data() + 4 * pixel;
    const int light = ink[3];
    for (std::size_t channel = 0; channel < 3; ++channel)
      pixels[3 * pixel + channel] =
          static_cast<std::uint8_t>(std::clamp(light - times(255 - ink[channel], light), 0, 255));
  }
}

image decoded_jpeg(const fs::path& file, const bytes& content) {
  const std::unique_ptr<void, tj_closed> decoder{tjInitDecompress()};
  if (!decoder) throw std::bad_alloc{};
  const auto complain = [&] {
    const std::string why = tjGetErrorStr2(decoder.get());
    const bool truncated = why.find("remature end") != std::string::npos;
    fail(file, (truncated ? "the file is truncated (libjpeg: " : "the file is damaged (libjpeg: ") + why + ")");
  };
  int width = 0, height = 0, subsampling = 0, colours = 0;
  const auto size = static_cast<unsigned long>(content.size());
  if (tjDecompressHeader3(decoder.get(), content.data(), size, &width, &height, &subsampling, &colours) != 0 &&
      tjGetErrorCode(decoder.get()) == TJERR_FATAL)
    complain();
  image made{sane(file, height, width), {}};
  const auto pixels = static_cast<std::size_t>(made.extent.height * made.extent.width);
  made.pixels.resize(3 * pixels);
  const bool inks = colours == TJCS_CMYK || colours == TJCS_YCCK;
  bytes of_inks(inks ? 4 * pixels : 0);
  const auto decode = [&](int more) {
    return tjDecompress2(decoder.get(), content.data(), size, inks ? of_inks.data() : made.pixels.data(), width, 0,
                         height, inks ? TJPF_CMYK : TJPF_RGB, TJFLAG_ACCURATEDCT | TJFLAG_LIMITSCANS | more) == 0;
  };
  if (!decode(TJFLAG_STOPONWARNING)) {
    if (!is_harmless(tjGetErrorStr2(decoder.get()))) complain();
    if (!decode(0) && !is_harmless(tjGetErrorStr2(decoder.get()))) complain();
  }
  if (inks) to_rgb(of_inks, made.pixels);
  return made;
}

}  // namespace

image_extent extent_of_image(const fs::path& file) {
  auto stream = opened(file);
  std::array<std::uint8_t, 8> begin{};
  stream.read(reinterpret_cast<char*>(begin.data()), begin.size());
  const std::span seen{begin.data(), static_cast<std::size_t>(stream.gcount())};
  if (is_png(seen)) return extent_of_png(file, stream);
  if (!is_jpeg(seen)) fail_as_neither(file, seen.size());
  stream.clear();
  stream.seekg(2);
  return extent_of_jpeg(file, stream);
}

image decode_image(const fs::path& file) {
  auto stream = opened(file);
  std::error_code error;
  const std::uintmax_t size = fs::file_size(file, error);
  if (!error && size > file_bytes_at_most) fail(file, "the file is too large for an image");
  bytes content(error ? 0 : size);
  if (error || !stream.read(reinterpret_cast<char*>(content.data()), static_cast<std::streamsize>(content.size())))
    throw data_error(file.string() + ": cannot read the file; check its permissions");
  if (is_png(content)) return decoded_png(file, content);
  if (!is_jpeg(content)) fail_as_neither(file, content.size());
  return decoded_jpeg(file, content);
}

}  // namespace troupe::data
