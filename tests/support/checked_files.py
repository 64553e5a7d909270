"""Files with checksums, byte by byte: the blocks of deliveries.bin, and the checksum that other formats have as well."""

import struct


def crc32c(data, table=[]):
    """CRC-32C (Castagnoli)."""
    if not table:
        for byte in range(256):
            for _ in range(8):
                byte = byte >> 1 ^ 0x82F63B78 * (byte & 1)
            table.append(byte)
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 255]
    return crc ^ 0xFFFFFFFF


def blocks_of(recording):
    """Yields where each block of a recording begins, and its number of entries."""
    at = 8 + 16 + struct.unpack_from("<QI", recording, 8)[1]
    while at < len(recording):
        count = struct.unpack_from("<QI", recording, at)[1]
        yield at, count
        at += 16 + 40 * count
