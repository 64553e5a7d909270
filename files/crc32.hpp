// The checksum of zip archives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace troupe {

/// Returns the CRC-32 of IEEE 802.3, which zip and gzip use, of `bytes`, continued from that of the bytes before them.
std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t so_far = 0);

}  // namespace troupe
