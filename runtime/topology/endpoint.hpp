// Where a node is reached, as text. Nothing here asks a resolver or opens a socket.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace troupe::topology {

/// A host, and the first of its two neighbouring ports that a node uses.
struct endpoint {
  std::string
      host;  ///< A name in lower case, an IPv4 address, or an IPv6 address without brackets, as inet_ntop writes.
  std::uint16_t port{0};
  bool operator==(const endpoint&) const = default;
};

/// Reads "10.0.0.1:4700", "localhost:4700", "[::1]:4700", the port from 0 to 65534; empty if it is nothing of the kind.
std::optional<endpoint> parse_endpoint(std::string_view text);

/// Writes it as parse_endpoint reads it: an IPv6 address in brackets.
std::string print_endpoint(const endpoint& where);

/// Says whether the host is localhost, of 127.0.0.0/8, or ::1, by its text alone; no other name is, whatever it
/// resolves to.
bool is_loopback(const endpoint& where);

}  // namespace troupe::topology
