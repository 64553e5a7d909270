#include "troupe/files/crc32.hpp"

#include <isa-l/crc.h>

namespace troupe {

std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t so_far) {
  return crc32_gzip_refl(so_far, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
}

}  // namespace troupe
