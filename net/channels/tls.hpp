// TLS 1.3 between nodes, or between a guest and a node: both sides present certificates of the same authority. ALPN
// says whether a connection is that of a guest, or for which plane it is.
#pragma once

#include "troupe/net/channels/channel.hpp"
#include "troupe/net/security/credentials.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace troupe::transport {

/// The number of records after which a side of a session changes its key. These 64 GiB are well below the 2^24.5 full
/// records that AES-GCM may encrypt with one key (RFC 8446, section 5.5). OpenSSL does not count records.
constexpr std::uint64_t most_records_per_key = std::uint64_t{1} << 22;

struct tls_options {
  bool accepts_guests{false};
  std::uint64_t records_per_key{most_records_per_key};
};

/// Returns encrypted channels whose ends have presented certificates. The files must have been checked by
/// security::check(). Throws std::runtime_error if they have become unreadable since then.
std::shared_ptr<const channel_factory> tls_channels(const security::credential_files& files,
                                                    const tls_options& options = {});

/// Returns the channel of a guest that has dialled a node. If `node` is not empty, the node must have this name;
/// otherwise, it may be any node whose certificate is of the same authority.
std::unique_ptr<channel> tls_channel_of_guest(int socket, const security::credential_files& files,
                                              const std::string& node);

}  // namespace troupe::transport
