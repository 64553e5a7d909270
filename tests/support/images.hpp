// Small PNG and JPEG files for tests.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <jpeglib.h>
#include <string>
#include <tuple>
#include <utility>
#include <vector>
#include <zlib.h>

namespace troupe::test {

inline std::string big_endian(std::uint32_t value) {
  std::string text;
  for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(value >> shift & 0xffu);
  return text;
}

inline std::string png_chunk(const std::string& name, const std::string& data) {
  const auto body = name + data;
  const auto sum = crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
  return big_endian(static_cast<std::uint32_t>(data.size())) + body + big_endian(static_cast<std::uint32_t>(sum));
}

/// Returns the bytes of a PNG. `rows` are the raw lines without their filter byte; `colours` is PNG's colour type.
inline std::string png(std::uint32_t width, const std::vector<std::string>& rows, int depth = 8, int colours = 2,
                       const std::string& more_chunks = {}) {
  std::string raw;
  for (const auto& row : rows) raw += '\0' + row;
  auto size = compressBound(static_cast<uLong>(raw.size()));
  std::string packed(size, '\0');
  compress(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(raw.data()),
           static_cast<uLong>(raw.size()));
  packed.resize(size);
  const auto header = big_endian(width) + big_endian(static_cast<std::uint32_t>(rows.size())) +
                      static_cast<char>(depth) + static_cast<char>(colours) + std::string(3, '\0');
  return "\x89PNG\r\n\x1a\n" + png_chunk("IHDR", header) + more_chunks + png_chunk("IDAT", packed) +
         png_chunk("IEND", {});
}

/// Returns a PNG of one colour.
inline std::string plain_png(std::uint32_t width, std::uint32_t height, std::uint8_t red, std::uint8_t green = 0,
                             std::uint8_t blue = 0) {
  std::string row;
  for (std::uint32_t i = 0; i < width; ++i)
    for (const auto value : {red, green, blue}) row += static_cast<char>(value);
  return png(width, std::vector<std::string>(height, row));
}

/// Sampling factors of the three components of a JPEG: luminance, and the two of colour.
using jpeg_sampling = std::array<std::pair<int, int>, 3>;

/// Returns a JPEG of one grey. Factors such as {{4, 1}, {1, 1}, {1, 1}} have no name in libraries, but are allowed.
inline std::string plain_jpeg(unsigned width, unsigned height, std::uint8_t grey,
                              const jpeg_sampling& sampling = {{{1, 1}, {1, 1}, {1, 1}}}, bool progressive = false) {
  jpeg_compress_struct writer{};
  jpeg_error_mgr errors{};
  writer.err = jpeg_std_error(&errors);
  jpeg_create_compress(&writer);
  unsigned char* made = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&writer, &made, &size);
  writer.image_width = width;
  writer.image_height = height;
  writer.input_components = 3;
  writer.in_color_space = JCS_RGB;
  jpeg_set_defaults(&writer);
  jpeg_set_quality(&writer, 95, TRUE);
  if (progressive) jpeg_simple_progression(&writer);
  for (int i = 0; i < 3; ++i)
    std::tie(writer.comp_info[i].h_samp_factor, writer.comp_info[i].v_samp_factor) =
        sampling.at(static_cast<std::size_t>(i));
  jpeg_start_compress(&writer, TRUE);
  std::vector<unsigned char> row(std::size_t{3} * width, grey);
  auto* line = row.data();
  while (writer.next_scanline < height) jpeg_write_scanlines(&writer, &line, 1);
  jpeg_finish_compress(&writer);
  jpeg_destroy_compress(&writer);
  const std::string bytes(reinterpret_cast<const char*>(made), size);
  std::free(made);
  return bytes;
}

}  // namespace troupe::test
