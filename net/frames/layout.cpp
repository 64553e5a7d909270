#include "troupe/net/frames/layout.hpp"

#include <algorithm>
#include <string>

namespace troupe::transport {

void check_mark(std::span<const std::byte, header_bytes> bytes, std::size_t count) {
  if (std::memcmp(bytes.data(), &detail::frame_magic, std::min(count, sizeof(detail::frame_magic))) != 0)
    throw frame_error("received bytes that are not a Troupe frame");
}

void check_intact(std::span<const std::byte, header_bytes> bytes) {
  check_mark(bytes, header_bytes);
  std::uint16_t version = 0;
  std::memcpy(&version, bytes.data() + sizeof(detail::frame_magic), sizeof(version));
  if (version != protocol_version)
    throw version_error("received a frame of protocol " + std::to_string(version) + "; expected protocol " +
                        std::to_string(protocol_version));
  std::uint32_t crc = 0;
  std::memcpy(&crc, bytes.data() + checksum_at, sizeof(crc));
  if (crc != crc32c(bytes.first(checksum_at)))
    throw frame_error("received a frame whose header was damaged in transit");
}

}  // namespace troupe::transport
