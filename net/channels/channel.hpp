// The bytes of a connection between two nodes, or of a guest with a node, and how its ends identify themselves before
// anything else is sent: with certificates (TLS), with a shared secret, or not at all.
#pragma once

#include "troupe/net/security/secret.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>

namespace troupe::transport {

/// What a connection carries.
enum class plane : std::uint32_t {
  tensors,  ///< Between each pair of nodes: parts, snapshots, states and copies.
  control,  ///< Between the first node and each other one: control messages.
  actor,    ///< Between a node and the program of a remote actor, which is a guest: parts, states and texts.
};

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

  /// Returns whether the other side has connected as a guest rather than as a node. Known after the handshake.
  virtual bool is_guest() const { return false; }

  /// Returns the name that the certificate of a guest proves, which is that of a node if it is a node's certificate, or
  /// "" if the guest has proved that it knows the secret.
  virtual std::string name_of_guest() const { return {}; }

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

/// Makes the kernel notice within about half a minute that the other side's machine, or the way to it, is gone,
/// although nothing is sent.
void keep_alive(int socket);

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

/// The secrets that the accepting side knows. Guests have one of their own, so that none of them can join as a node.
struct channel_secrets {
  std::optional<security::shared_secret> of_nodes{};   ///< Without it, nodes are refused.
  std::optional<security::shared_secret> of_guests{};  ///< Without it, guests are refused.
};

/// Returns channels whose ends prove to each other that they have a secret, without revealing it. What follows is
/// neither encrypted nor authenticated: this protects against other users of the same host, not in a network. Only with
/// the secret of nodes can a node be dialled.
std::shared_ptr<const channel_factory> secret_channels(const channel_secrets& known);

/// Returns the channel of a guest that has dialled a node and has the secret of guests.
std::unique_ptr<channel> secret_channel_of_guest(int socket, const security::shared_secret& secret);

}  // namespace troupe::transport
