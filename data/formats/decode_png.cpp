// Decodes PNG with libpng, which uses callbacks and longjmp: functions that it may jump out of must not have objects to
// destroy.
#include "troupe/data/formats/image_decoders.hpp"

#include <array>
#include <csetjmp>
#include <cstring>
#include <memory>
#include <png.h>
#include <string_view>
#include <vector>

namespace troupe::data {

namespace {

constexpr std::string_view truncated = "the file is truncated";

// State that libpng's callbacks share.
struct png_input {
  std::span<const std::uint8_t> left;
  std::array<char, 160> complaint{};
  bool has_pixels{false};  // whether all pixels have been decoded
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
  if (count > input.left.size()) png_error(png, truncated.data());
  std::memcpy(into, input.left.data(), count);
  input.left = input.left.subspan(count);
}
}

// Reads the header up to the pixels.
bool begin_png(png_structp png, png_infop info) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  png_read_info(png, info);
  png_set_palette_to_rgb(png);
  png_set_expand_gray_1_2_4_to_8(png);
  png_set_strip_16(png);
  png_set_gray_to_rgb(png);
  png_set_strip_alpha(png);
  png_set_interlace_handling(png);
  png_read_update_info(png, info);
  if (png_get_rowbytes(png, info) != std::size_t{3} * png_get_image_width(png, info))
    png_error(png, "its pixel format is unknown");
  return true;
}

bool finish_png(png_structp png, png_input& input, png_bytep* rows) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  png_read_image(png, rows);
  input.has_pixels = true;
  png_read_end(png, nullptr);
  return true;
}

// A PNG file that is being decoded.
class png_file {
 public:
  explicit png_file(const image_bytes& from) : from_{from}, input_{.left = from.bytes} {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, &input_, troupe_png_error, troupe_png_warning);
    if (png_ == nullptr) throw std::bad_alloc{};
    info_ = png_create_info_struct(png_);
    if (info_ == nullptr) {
      png_destroy_read_struct(&png_, nullptr, nullptr);
      throw std::bad_alloc{};
    }
    png_set_read_fn(png_, &input_, troupe_png_read);
    png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // see plausible()
  }
  png_file(const png_file&) = delete;
  png_file& operator=(const png_file&) = delete;
  ~png_file() { png_destroy_read_struct(&png_, &info_, nullptr); }

  // Returns the size, or nothing if the header does not end within these bytes and the file has more.
  std::optional<image_extent> begin() {
    require_size_first();
    if (begin_png(png_, info_)) return extent();
    if (input_.complaint.data() == truncated && !from_.whole) return std::nullopt;
    complain();
  }

  image decode() {
    begin();
    image result{extent(), {}};
    const auto stride = static_cast<std::size_t>(3 * result.extent.width);
    result.pixels.resize(stride * static_cast<std::size_t>(result.extent.height));
    std::vector<png_bytep> rows;
    for (std::size_t at = 0; at < result.pixels.size(); at += stride) rows.push_back(result.pixels.data() + at);
    if (!finish_png(png_, input_, rows.data())) {
      // What follows the pixels may be missing: Pillow does not read it either.
      if (!input_.has_pixels || input_.complaint.data() != truncated) complain();
    }
    return result;
  }

 private:
  image_extent extent() const {
    return plausible(from_.file, png_get_image_height(png_, info_), png_get_image_width(png_, info_));
  }

  // Checks the size before libpng allocates anything for an implausible one.
  void require_size_first() const {
    constexpr std::size_t name_at = 12, width_at = 16, height_at = 20, end = 24;
    if (from_.bytes.size() < end) fail_as_image(from_.file, std::string{truncated});
    if (std::memcmp(from_.bytes.data() + name_at, "IHDR", 4) != 0)
      fail_as_image(from_.file, "the file is damaged: a PNG image must begin with its size");
    const auto number = [&](std::size_t at) {
      std::int64_t value = 0;
      for (const auto digit : from_.bytes.subspan(at, 4)) value = value << 8 | digit;
      return value;
    };
    plausible(from_.file, number(height_at), number(width_at));
  }

  [[noreturn]] void complain() const {
    const std::string why{input_.complaint.data()};
    fail_as_image(from_.file, why == truncated ? why : "the file is damaged (libpng: " + why + ")");
  }

  const image_bytes& from_;
  png_input input_;
  png_structp png_{nullptr};
  png_infop info_{nullptr};
};

}  // namespace

std::optional<image_extent> extent_of_png(const image_bytes& begin) {
  return png_file{begin}.begin();
}

image decode_png(const image_bytes& all) {
  return png_file{all}.decode();
}

}  // namespace troupe::data
