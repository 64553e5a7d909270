// The frame: how a tensor message looks between two nodes. 112 bytes of header, little-endian, then the payload;
// docs/protocol.md draws it byte by byte. Pure functions and a reader that is fed bytes: no socket, no thread, no
// actor.
#pragma once

#include "troupe/actors/messages.hpp"
#include "troupe/models/buffer_pool.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

namespace troupe::transport {

/// Version of frames and control messages alike; nodes of one run have the same.
constexpr std::uint16_t protocol_version = 4;

constexpr std::size_t header_bytes = 112;

/// What both ends of a connection show that they belong to this run.
using session_id = std::array<std::byte, 16>;

enum class frame_kind : std::uint8_t {
  hello = 1,  ///< The first frame each way: `to` is the sending node's index, `total` its window, the first credit.
  part,       ///< For the port of rank `to`.
  snapshot,   ///< For the coordinator.
  credit,     ///< What cost `total` has been taken: as much more may be sent.
};

/// What a payload costs of the credit, in bytes: the memory that a receiver's pool takes for it, which is whole pages.
/// So a window bounds memory however small the payloads are, and their number with it.
constexpr std::int64_t cost_of(std::uint64_t payload_bytes) {
  constexpr std::uint64_t page = 4096;
  return static_cast<std::int64_t>((payload_bytes + page - 1) / page * page);
}

/// What stands before every payload. Fields of a part or a snapshot are theirs; see messages.hpp.
struct frame_header {
  frame_kind kind{frame_kind::hello};
  std::uint32_t to{0};
  slot what{slot::gradient};
  stage at{stage::contribution};
  stamp origin{};
  key which{};
  std::int64_t first{0}, total{0}, sample_count{0};
  double mass{1};
  std::uint64_t elements{0};       ///< Of the payload, float32; a hello's payload is the session instead.
  std::uint64_t payload_bytes{0};  ///< That follow.
  std::uint32_t payload_crc{0};    ///< CRC-32C of them.
};

/// What a frame may name on this node, known before the first byte comes: nothing else is believed, or allocated.
struct frame_limits {
  std::uint32_t world_size{1};
  std::uint32_t first_rank{0}, ranks{1};  ///< Ranks of this node: [first_rank, first_rank + ranks).
  std::uint32_t servers{0};               ///< Of all exchanges: they are called world_size and up …
  bool has_servers{false};                ///< … and are all of this node, or none.
  std::vector<std::int64_t> exchanged{};  ///< By place: elements of what is exchanged there.
  std::int64_t total{0};                  ///< Elements of a snapshot.

  /// The largest payload, in bytes.
  std::uint64_t largest_payload() const;
};

/// Says what is wrong with bytes that came.
struct frame_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Returns the CRC-32C (Castagnoli) of `bytes`, or of what `so_far` was made of followed by them.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t so_far = 0);

/// Returns the header as bytes, its own checksum included.
std::array<std::byte, header_bytes> encode(const frame_header& header);

/// Reads a header. Throws frame_error: magic, version, checksum, kind, or a field beyond `limits`.
frame_header decode(std::span<const std::byte, header_bytes> bytes, const frame_limits& limits);

/// Headers of what is sent, checksums of the payload included. The values are as messages.hpp wants them: float32 on
/// the CPU, contiguous, and at least one.
frame_header header_of(std::uint32_t to, const part& piece);
frame_header header_of(const snapshot& result);

/// A whole frame that came.
struct frame {
  frame_header header;
  at::Tensor values;     ///< [elements], 64-byte aligned, of the reader's pool; undefined without a payload.
  session_id session{};  ///< Of a hello.

  part as_part() const;
  snapshot as_snapshot() const;
};

/// Puts frames together from bytes that come in any pieces.
class frame_reader {
 public:
  frame_reader(frame_limits limits, models::buffer_pool pool) : limits_(std::move(limits)), pool_(std::move(pool)) {}

  enum class found : std::uint8_t { nothing, header, frame };

  /// Where the next bytes go; never empty. The payload's memory is taken here, after its header was found good.
  std::span<std::byte> room();

  /// Hears that `count` bytes were put into room(); tells what they completed. Throws frame_error, for bytes of
  /// another protocol with the first of them; the reader is of no use after that.
  found advance(std::size_t count);

  /// Of the last `found::header`.
  const frame_header& header() const { return current_.header; }

  /// Hands over the last `found::frame`.
  frame take() { return std::exchange(current_, {}); }

 private:
  found payload_complete();

  frame_limits limits_;
  models::buffer_pool pool_;
  std::array<std::byte, header_bytes> bytes_{};
  std::size_t filled_{0};  ///< Bytes of the header, or of the payload once `in_payload_`.
  bool in_payload_{false};
  std::uint32_t crc_{0};  ///< Of the payload so far.
  frame current_;
};

}  // namespace troupe::transport
