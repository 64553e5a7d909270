// The bytes of a frame: the format of everything that travels between two nodes, and between a run and the program that
// has an actor of it. A header of 112 bytes, little-endian, precedes the payload; docs/protocol.md specifies every
// byte. It is the same for both ends, whatever types they use for its fields.
#pragma once

#include "troupe/files/crc32c.hpp"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <type_traits>

namespace troupe::transport {

/// Version of frames and control messages. All nodes of a run must have the same version.
constexpr std::uint16_t protocol_version = 10;

constexpr std::size_t header_bytes = 112;
constexpr std::size_t checksum_at = header_bytes - sizeof(std::uint32_t);

/// Identifies the run. Both ends of a tensor link send it in their hello; other hellos contain zeros.
using session_id = std::array<std::byte, 16>;

enum class frame_kind : std::uint8_t {
  /// The first frame in each direction. `to` is the sender's node index, `total` the initial credit, `which.place` the
  /// plane, and `which.part` what follows (control_carrier).
  hello = 1,
  part,      ///< A part for the port of rank `to`.
  snapshot,  ///< A snapshot for the coordinator.
  credit,    ///< Grants `total` more credit, because frames of that cost have been taken.
  state,     ///< Bytes of the state of worker `origin.sender`, from `first` on, of `total`; see state_frames.hpp.
  copy,      ///< Bytes of the files of a checkpoint, for the node that keeps a copy; otherwise like `state`.
  control,   ///< A control message; see control.hpp.
  beat,      ///< Only shows that the sender is alive.
};

/// Maximum payload of a state frame. A state is cut into such pieces.
constexpr std::int64_t state_piece_bytes = 256 * 1024;

/// Returns the size of the largest state of a worker, or of the program of an actor, in bytes, for a model of `total`
/// elements: parameters, gradient and moments, and some more.
constexpr std::int64_t largest_state_of(std::int64_t total) {
  return (std::int64_t{16} << 20) + 16 * 4 * total;
}

/// Credit that the hello of each side grants to the other one at first, by default. Small, so that waiting data is
/// still in the cache when it is read.
constexpr std::int64_t default_window = 2 << 20;

/// Returns the credit that a payload uses, in bytes: the memory that the receiver's pool allocates for it, in whole
/// pages. The window therefore limits memory and the number of payloads, however small they are.
constexpr std::int64_t cost_of(std::uint64_t payload_bytes) {
  constexpr std::uint64_t page = 4096;
  return static_cast<std::int64_t>((payload_bytes + page - 1) / page * page);
}

/// Returns the credit required to send a payload of this cost: never more than a receiver returns without further
/// frames, so that a payload larger than the window can be sent alone.
constexpr std::int64_t needed_credit(std::int64_t cost, std::int64_t window) {
  return cost < window - window / 4 ? cost : window - window / 4;
}

/// Received bytes that are not a valid frame; what() describes the fault.
struct frame_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A received frame that uses another version of the protocol.
struct version_error : frame_error {
  using frame_error::frame_error;
};

/// Throws frame_error if the bytes do not start with the magic. Only the first `count` of them have been received.
void check_mark(std::span<const std::byte, header_bytes> bytes, std::size_t count);

/// Throws frame_error unless the header has the magic, this version and its checksum.
void check_intact(std::span<const std::byte, header_bytes> bytes);

namespace detail {

static_assert(std::endian::native == std::endian::little, "frames have the byte order of memory");

constexpr std::uint32_t frame_magic = 0x50525454;  // "TTRP"

/// Writes or reads consecutive fields.
template <class Byte>
class cursor {
 public:
  explicit cursor(Byte* at) : at_(at) {}

  template <class Field>
  void operator()(Field& field) {
    if constexpr (std::is_const_v<Byte>)
      std::memcpy(&field, at_, sizeof(Field));
    else
      std::memcpy(at_, &field, sizeof(Field));
    at_ += sizeof(Field);
  }

 private:
  Byte* at_;
};

/// Writes or reads the fields of a header in the order of its layout.
template <class Byte, class Header>
void fields(cursor<Byte>&& at, std::uint8_t& dims, Header& header) {
  static_assert(sizeof(header.kind) + sizeof(header.how) + sizeof(header.what) + sizeof(header.at) == 4);
  static_assert(sizeof(header.to) + sizeof(header.origin.sender) + sizeof(header.origin.generation) +
                    sizeof(header.which.place) + sizeof(header.which.part) + sizeof(header.payload_crc) ==
                24);
  static_assert(sizeof(header.origin.run) + sizeof(header.origin.step) + sizeof(header.origin.version) +
                    sizeof(header.first) + sizeof(header.total) + sizeof(header.sample_count) + sizeof(header.mass) +
                    sizeof(header.elements) + sizeof(header.payload_bytes) ==
                72);
  auto mark = frame_magic;
  auto version = protocol_version;
  at(mark);
  at(version);
  at(header.kind);
  at(header.how);
  at(dims);
  at(header.what);
  at(header.at);
  std::uint8_t padding = 0;
  at(padding);
  at(header.to);
  at(header.origin.run);
  at(header.origin.sender);
  at(header.origin.generation);
  at(header.origin.step);
  at(header.origin.version);
  at(header.which.place);
  at(header.which.part);
  at(header.first);
  at(header.total);
  at(header.sample_count);
  at(header.mass);
  at(header.elements);
  at(header.payload_bytes);
  at(header.payload_crc);
}

}  // namespace detail

/// Returns a header as bytes, including its checksum.
template <class Header>
std::array<std::byte, header_bytes> write_header(Header header) {
  std::array<std::byte, header_bytes> bytes{};
  std::uint8_t dims = header.elements > 0 ? 1 : 0;
  if (header.elements == 0) header.how = {};
  detail::fields(detail::cursor{bytes.data()}, dims, header);
  const auto crc = crc32c(std::span{bytes}.first(checksum_at));
  std::memcpy(bytes.data() + checksum_at, &crc, sizeof(crc));
  return bytes;
}

/// Returns the header in these bytes, and its number of dimensions. Throws frame_error as check_intact() does; the
/// values of the fields are not checked.
template <class Header>
Header read_header(std::span<const std::byte, header_bytes> bytes, std::uint8_t& dims) {
  check_intact(bytes);
  Header header;
  detail::fields(detail::cursor{bytes.data()}, dims, header);
  return header;
}

}  // namespace troupe::transport
