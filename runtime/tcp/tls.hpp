// TLS 1.3 between nodes: both sides present certificates of the same authority. The plane of a connection is chosen by
// ALPN.
#pragma once

#include "troupe/runtime/security/credentials.hpp"
#include "troupe/runtime/tcp/channel.hpp"

#include <cstdint>
#include <memory>

namespace troupe::transport {

/// The number of records after which a side of a session changes its key. These 64 GiB are well below the 2^24.5 full
/// records that AES-GCM may encrypt with one key (RFC 8446, section 5.5). OpenSSL does not count records.
constexpr std::uint64_t most_records_per_key = std::uint64_t{1} << 22;

/// Returns encrypted channels whose ends have presented certificates. The files must have been checked by
/// security::check(). Throws std::runtime_error if they have become unreadable since then.
std::shared_ptr<const channel_factory> tls_channels(const security::credential_files& files,
                                                    std::uint64_t records_per_key = most_records_per_key);

}  // namespace troupe::transport
