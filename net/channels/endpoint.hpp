// The address of a node as text. Nothing here queries a resolver or opens a socket.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace troupe {

/// A host and a port.
struct endpoint {
  /// Name in lower case, IPv4 address, or IPv6 address without brackets, as inet_ntop writes it.
  std::string host;
  std::uint16_t port{0};
  bool operator==(const endpoint&) const = default;
};

/// Parses "10.0.0.1:4700", "localhost:4700" or "[::1]:4700" with a port from 0 to 65535. Returns nothing for other
/// text.
std::optional<endpoint> parse_endpoint(std::string_view text);

/// Returns the endpoint as parse_endpoint() reads it, with an IPv6 address in brackets.
std::string print_endpoint(const endpoint& where);

/// Returns whether the host is localhost, in 127.0.0.0/8, or ::1. Only the text counts: no other name is loopback,
/// whatever it resolves to.
bool is_loopback(const endpoint& where);

}  // namespace troupe
