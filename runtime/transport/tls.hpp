// TLS 1.3 between nodes: both sides show certificates of one authority. The plane of a connection is chosen by ALPN.
#pragma once

#include "troupe/runtime/security/credentials.hpp"
#include "troupe/runtime/transport/channel.hpp"

#include <memory>

namespace troupe::transport {

/// Returns encrypted channels whose ends have shown certificates. The files have been checked; see security::check().
/// Throws std::runtime_error if they have become unreadable since.
std::shared_ptr<const channel_factory> tls_channels(const security::credential_files& files);

}  // namespace troupe::transport
