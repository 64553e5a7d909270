// The checksum of frames and digests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace troupe {

/// Returns the CRC-32C (RFC 3720, appendix B.4) of `bytes`, continued from that of the bytes before them.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t so_far = 0);

}  // namespace troupe
