// The gate in front of CAF's network code. CAF 0.17 trusts every program that speaks BASP, its protocol: a header may
// claim a payload of 4 GiB, which is allocated at once, and a message may be addressed to any actor and contain any
// type. The gate reads the bytes first. It passes on what the actors behind it expect, drops what an honest CAF program
// sends besides, and ends the connection otherwise. docs/actors.md has the format of BASP as far as the gate reads it.
//
// Pure functions of bytes: no sockets, no threads, no CAF.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace troupe::basp {

constexpr std::size_t header_bytes = 32;

/// The id of a CAF node as it is written in a payload: 8 bytes for its kind, a process id, and 20 bytes for the host.
constexpr std::size_t node_bytes = 32;
using node_text = std::array<std::byte, node_bytes>;

/// Why a connection is ended, as a clause about the other side: "it sent …".
struct gate_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct gate_options {
  std::size_t most_payload{1 << 20};  ///< Size of the largest payload, in bytes.
  /// Whether this side has published an actor and the other side has dialled. The other side is then checked as
  /// described above; a side that has dialled only limits the size of payloads.
  bool accepts{true};
  node_text own_node{};              ///< Id of the CAF node behind the gate.
  std::set<std::uint64_t> actors{};  ///< Ids of the actors that may be addressed.
  /// Returns whether no other CAF node has this id; empty if there can be no other. Called once.
  std::function<bool(const node_text&)> is_new{};
  std::set<std::string> messages{};  ///< Names of the types of which a message may contain one value.
};

class gate {
 public:
  explicit gate(gate_options options) : options_(std::move(options)) {}

  /// Takes bytes that have arrived, and appends those that CAF may read to `passed`. A payload is passed on only when
  /// it is complete; memory grows with the bytes that have arrived, not with what a header claims. Throws gate_error,
  /// after which the gate cannot be used.
  void take(std::span<const std::byte> bytes, std::vector<std::byte>& passed);

  /// Returns the number of headers so far.
  std::uint64_t headers() const { return headers_; }

  /// Returns the id of the other CAF node, once it has introduced itself. Only if this side accepts.
  const std::optional<node_text>& other_node() const { return other_; }

 private:
  struct header {
    std::uint8_t operation{0}, flags{0};
    std::uint32_t payload_bytes{0};
    std::uint64_t target{0};
  };
  enum class verdict : std::uint8_t { pass, drop };

  header read_header() const;
  verdict judge(const header& what);
  void judge_handshake(const header& what);
  verdict judge_message(const header& what);
  verdict judge_monitor(const header& what);
  void judge_down(const header& what);

  gate_options options_;
  std::array<std::byte, header_bytes> header_{};
  std::size_t filled_{0};           ///< Bytes of the header that have arrived.
  std::vector<std::byte> payload_;  ///< The payload as far as it has arrived.
  std::optional<node_text> other_;
  std::uint64_t headers_{0};
};

}  // namespace troupe::basp
