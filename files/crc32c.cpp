#include "troupe/files/crc32c.hpp"

#include <isa-l/crc.h>

#include <algorithm>

namespace troupe {

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t so_far) {
  std::uint32_t state = ~so_far;
  while (!bytes.empty()) {  // the library counts in int
    const auto chunk = bytes.first(std::min<std::size_t>(bytes.size(), std::size_t{1} << 30));
    auto* data = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(chunk.data()));  // the library does not write
    state = crc32_iscsi(data, static_cast<int>(chunk.size()), state);
    bytes = bytes.subspan(chunk.size());
  }
  return ~state;
}

}  // namespace troupe
