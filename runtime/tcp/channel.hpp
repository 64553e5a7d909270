// The bytes of a connection between two nodes, and how its ends identify themselves before the first frame: with
// certificates (TLS), with a shared secret, or not at all. Only the transport includes this header.
#pragma once

#include "troupe/runtime/security/secret.hpp"
#include "troupe/runtime/transport/frame.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>

namespace troupe::transport {

/// Why a handshake failed, as a clause about the other side: "its certificate has expired".
struct handshake_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// One end of a connection over a non-blocking socket, which the owner keeps open. The handshake comes first. After it,
/// one thread may read while another writes.
class channel {
 public:
  virtual ~channel() = default;

  enum class progress : std::uint8_t { done, wants_read, wants_write };

  /// Continues the handshake as far as possible. Throws handshake_error.
  virtual progress shake_hands() { return progress::done; }

  /// Throws handshake_error unless the other side has proved that it is the node with this name and has connected for
  /// this plane.
  virtual void check(const std::string& node, plane where) const;

  /// Read and write like recv(2) and sendmsg(2): they return the number of bytes, 0 at the end of the stream, or -1
  /// with errno. A write that was refused with EAGAIN must be repeated with the same bytes.
  virtual std::ptrdiff_t read(std::span<std::byte> room) = 0;
  virtual std::ptrdiff_t write(std::span<const std::byte> header, std::span<const std::byte> payload) = 0;

  /// Returns whether a write() that has just failed with EAGAIN can succeed only after read() has taken more bytes,
  /// rather than after the socket has space.
  virtual bool needs_input() const { return false; }

  /// Returns what is known about the last error of read() or write() apart from errno, or "".
  virtual std::string error() const { return {}; }
};

/// Makes the channels of a node.
class channel_factory {
 public:
  virtual ~channel_factory() = default;
  /// Return the channel of a socket that this side has accepted, or with which it has dialled a node.
  virtual std::unique_ptr<channel> accepted(int socket) const = 0;
  virtual std::unique_ptr<channel> dialled(int socket, const std::string& node, plane where) const = 0;
};

/// Returns channels without a handshake, for a network in which every machine is trusted.
std::shared_ptr<const channel_factory> plain_channels();

/// Returns channels whose ends prove to each other that they have the secret, without revealing it. What follows is
/// neither encrypted nor authenticated: this protects against other users of the same host, not in a network.
std::shared_ptr<const channel_factory> secret_channels(const security::shared_secret& secret);

}  // namespace troupe::transport
