// Decodes JPEG with libjpeg, which uses callbacks and longjmp: functions that it may jump out of must not have objects
// to destroy.
#include "troupe/data/formats/image_decoders.hpp"

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>
#include <jerror.h>
#include <jpeglib.h>
#include <vector>

namespace troupe::data {

namespace {

// A progressive image of a few kilobytes may have thousands of scans, each of which takes as long as the whole image.
constexpr int scans_at_most = 500;

// State that libjpeg's callbacks share.
struct jpeg_state {
  jpeg_decompress_struct reader{};
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  std::jmp_buf out{};
  std::array<char, JMSG_LENGTH_MAX> complaint{};  // the error, or the first warning of damage
  bool damaged{false};                            // a warning reported that some pixels are damaged
  bool ran_out{false};                            // the file ends before the image does
};

jpeg_state& state_of(j_common_ptr common) {
  return *static_cast<jpeg_state*>(common->client_data);
}

// Returns whether a warning concerns only side information, which every decoder ignores, so that the pixels are intact.
bool is_harmless(int warning) {
  return warning == JWRN_EXTRANEOUS_DATA || warning == JWRN_JFIF_MAJOR || warning == JWRN_ADOBE_XFORM ||
         warning == JWRN_BOGUS_PROGRESSION || warning == JWRN_NOT_SEQUENTIAL;
}

extern "C" {

void troupe_jpeg_error(j_common_ptr common) {
  auto& state = state_of(common);
  common->err->format_message(common, state.complaint.data());
  std::longjmp(state.out, 1);
}

void troupe_jpeg_warning(j_common_ptr common, int level) {
  const int warning = common->err->msg_code;
  if (level >= 0 || is_harmless(warning)) return;
  auto& state = state_of(common);
  (warning == JWRN_JPEG_EOF ? state.ran_out : state.damaged) = true;
  if (state.complaint[0] == '\0') common->err->format_message(common, state.complaint.data());
}

void troupe_jpeg_progress(j_common_ptr common) {
  auto& state = state_of(common);
  if (state.reader.input_scan_number <= scans_at_most) return;
  std::snprintf(state.complaint.data(), state.complaint.size(), "more than %d scans", scans_at_most);
  std::longjmp(state.out, 1);
}
}

bool has_inks(const jpeg_decompress_struct& reader) {
  return reader.jpeg_color_space == JCS_CMYK || reader.jpeg_color_space == JCS_YCCK;
}

bool read_header(jpeg_state& state, const image_bytes& from) {
  if (setjmp(state.out) != 0) return false;
  jpeg_mem_src(&state.reader, from.bytes.data(), from.bytes.size());
  jpeg_read_header(&state.reader, TRUE);
  state.reader.out_color_space = has_inks(state.reader) ? JCS_CMYK : JCS_RGB;
  state.reader.dct_method = JDCT_ISLOW;  // as in Pillow
  return true;
}

// Sets up decoding without decoding anything. Fails for files that libjpeg does not support.
bool try_start(jpeg_state& state) {
  if (setjmp(state.out) != 0) return false;
  state.reader.buffered_image = jpeg_has_multiple_scans(&state.reader);
  jpeg_start_decompress(&state.reader);
  return true;
}

bool read_pixels(jpeg_state& state, std::uint8_t* pixels, std::size_t stride) {
  if (setjmp(state.out) != 0) return false;
  jpeg_start_decompress(&state.reader);
  while (state.reader.output_scanline < state.reader.output_height) {
    JSAMPROW row = pixels + state.reader.output_scanline * stride;
    jpeg_read_scanlines(&state.reader, &row, 1);
  }
  return true;
}

// Returns whether all coefficients have been read: every component and, in a progressive image, every bit.
bool is_complete(const jpeg_decompress_struct& reader) {
  for (int i = 0; i < reader.num_components; ++i) {
    if (reader.comp_info[i].quant_table == nullptr) return false;
    if (reader.coef_bits != nullptr &&
        std::any_of(reader.coef_bits[i], reader.coef_bits[i] + DCTSIZE2, [](int bits) { return bits != 0; }))
      return false;
  }
  return true;
}

// Converts inks, inverted as Adobe writes them, to the same RGB values as Pillow.
void to_rgb(const std::vector<std::uint8_t>& inks, std::vector<std::uint8_t>& pixels) {
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

class jpeg_file {
 public:
  explicit jpeg_file(const image_bytes& from) : from_{from} {
    state_.reader.err = jpeg_std_error(&state_.errors);
    state_.errors.error_exit = troupe_jpeg_error;
    state_.errors.emit_message = troupe_jpeg_warning;
    jpeg_create_decompress(&state_.reader);  // cannot fail with the library that this file was compiled for
    state_.reader.client_data = &state_;
    state_.progress.progress_monitor = troupe_jpeg_progress;
    state_.reader.progress = &state_.progress;
  }
  jpeg_file(const jpeg_file&) = delete;
  jpeg_file& operator=(const jpeg_file&) = delete;
  ~jpeg_file() { jpeg_destroy_decompress(&state_.reader); }

  // Returns the size, or nothing if the header does not end within these bytes and the file has more.
  std::optional<image_extent> begin() {
    const bool began = read_header(state_, from_);
    if (state_.ran_out) {
      if (!from_.whole) return std::nullopt;
      fail_as_image(from_.file, "the file is truncated within its header");
    }
    if (!began) complain();
    const auto extent = plausible(from_.file, state_.reader.image_height, state_.reader.image_width);
    if (!try_start(state_)) complain();
    return extent;
  }

  image decode() {
    if (!read_header(state_, from_)) complain();
    image result{plausible(from_.file, state_.reader.image_height, state_.reader.image_width), {}};
    const auto pixels = static_cast<std::size_t>(result.extent.height * result.extent.width);
    result.pixels.resize(3 * pixels);
    const bool inks = has_inks(state_.reader);
    std::vector<std::uint8_t> of_inks(inks ? 4 * pixels : 0);
    const auto stride = static_cast<std::size_t>(result.extent.width) * (inks ? 4 : 3);
    if (!read_pixels(state_, inks ? of_inks.data() : result.pixels.data(), stride) || state_.damaged ||
        (state_.ran_out && !is_complete(state_.reader)))
      complain();
    if (inks) to_rgb(of_inks, result.pixels);
    return result;
  }

 private:
  [[noreturn]] void complain() const {
    fail_as_image(from_.file, (state_.ran_out ? "the file is truncated (libjpeg: " : "the file is damaged (libjpeg: ") +
                                  std::string{state_.complaint.data()} + ")");
  }

  const image_bytes& from_;
  jpeg_state state_;
};

}  // namespace

std::optional<image_extent> extent_of_jpeg(const image_bytes& begin) {
  return jpeg_file{begin}.begin();
}

image decode_jpeg(const image_bytes& all) {
  return jpeg_file{all}.decode();
}

}  // namespace troupe::data
