// Zip archives without compression, as PyTorch writes them.
#pragma once

#include "troupe/files/crc32.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::testing {

struct archive_entry {
  std::string name, content;
};

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span{text.data(), text.size()});
}

/// Returns the first `count` bytes of a number, the lowest first.
inline std::string little_endian(std::size_t count, std::uint64_t value) {
  std::string bytes;
  for (std::size_t i = 0; i < count; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xff);
  return bytes;
}

/// Returns an archive whose sizes have 64 bits and are in extra fields.
inline std::string stored_archive(const std::vector<archive_entry>& entries) {
  const auto of_16 = [](std::uint64_t value) { return little_endian(2, value); };
  const auto of_32 = [](std::uint64_t value) { return little_endian(4, value); };
  const auto of_64 = [](std::uint64_t value) { return little_endian(8, value); };
  const auto elsewhere = of_32(0xffffffff);
  std::string file, list;
  for (const auto& [name, content] : entries) {
    const auto sizes = of_64(content.size()) + of_64(content.size());
    const auto local_extra = of_16(1) + of_16(16) + sizes, extra = of_16(1) + of_16(24) + sizes + of_64(file.size());
    const auto common =
        of_16(0) + of_16(0) + of_32(0) + of_32(crc32(bytes_of(content))) + elsewhere + elsewhere + of_16(name.size());
    file += "PK\3\4" + of_16(45) + common + of_16(local_extra.size()) + name + local_extra + content;
    list += "PK\1\2" + of_16(45) + of_16(45) + common + of_16(extra.size()) + of_16(0) + of_16(0) + of_16(0) +
            of_32(0) + elsewhere + name + extra;
  }
  const auto first = file.size(), end = first + list.size(), count = entries.size();
  file += list + "PK\6\6" + of_64(44) + of_16(45) + of_16(45) + of_32(0) + of_32(0) + of_64(count) + of_64(count) +
          of_64(list.size()) + of_64(first);
  return file + "PK\6\7" + of_32(0) + of_64(end) + of_32(1) + "PK\5\6" + of_16(0) + of_16(0) + of_16(count) +
         of_16(count) + of_32(list.size()) + elsewhere + of_16(0);
}

}  // namespace troupe::testing
