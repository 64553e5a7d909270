// The frame: the format of everything that travels between two nodes; see layout.hpp. This file contains pure functions
// and a reader that is given bytes, without sockets, threads or actors.
#pragma once

#include "troupe/algorithms/messages/messages.hpp"
#include "troupe/models/storage/buffer_pool.hpp"
#include "troupe/net/channels/channel.hpp"
#include "troupe/net/frames/layout.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace troupe::transport {

/// What follows the hellos on a control link.
enum class control_carrier : std::uint32_t { frames, caf };

/// Returns whether frames of this kind may follow the hello on a connection of this plane.
bool belongs(frame_kind kind, plane where);

/// Header of a frame. Fields that also exist in a part or a snapshot have the same meaning as in messages.hpp.
struct frame_header {
  frame_kind kind{frame_kind::hello};
  std::uint32_t to{0};
  slot what{slot::gradient};
  stage at{stage::contribution};
  stamp origin{};
  key which{};
  encoding how{encoding::float32};  ///< Encoding of the payload; 0 in a frame without values.
  std::int64_t first{0}, total{0}, sample_count{0};
  double mass{1};
  std::uint64_t elements{0};       ///< Number of values in the payload; 0 in a hello, which contains the session.
  std::uint64_t payload_bytes{0};  ///< Size of the payload, which follows the header.
  std::uint32_t payload_crc{0};    ///< CRC-32C of the payload.
};

/// Limits on the fields of the frames that this node accepts. They are known before the first byte arrives; a frame
/// that exceeds them is rejected before memory is allocated for it.
struct frame_limits {
  run_id run{};  ///< Identifier of the run in every part and snapshot.
  std::uint32_t world_size{1};
  std::uint32_t first_rank{0}, ranks{1};   ///< Ranks of this node: [first_rank, first_rank + ranks).
  std::uint32_t servers{0};                ///< Number of servers of all exchanges; their ids start at world_size.
  bool has_servers{false};                 ///< Whether all servers are on this node; otherwise, none is.
  std::vector<std::int64_t> exchanged{};   ///< Number of elements that each exchange sends, by place.
  std::vector<encoding> encodings{};       ///< Encoding of each exchange's parts, by place; float32 if missing.
  std::int64_t total{0};                   ///< Number of elements of a snapshot.
  bool keeps_copies{false};                ///< Whether this node keeps copies of checkpoints.
  std::uint64_t largest_control{1 << 20};  ///< Size of the largest control message, in bytes.

  encoding encoding_of(std::uint32_t place) const {
    return place < encodings.size() ? encodings[place] : encoding::float32;
  }

  std::int64_t largest_state() const { return largest_state_of(total); }

  /// Returns the size of the largest copy of a checkpoint, in bytes: all states, and the outputs of the run.
  std::int64_t largest_copy() const { return (std::int64_t{1} << 36) + (world_size + servers + 1) * largest_state(); }

  /// Returns the size of the largest payload, in bytes.
  std::uint64_t largest_payload() const;
};

/// Returns the header as bytes, including its checksum.
std::array<std::byte, header_bytes> encode(const frame_header& header);

/// Decodes a header. Throws frame_error if the magic, version, checksum or kind is wrong, or a field exceeds `limits`.
frame_header decode(std::span<const std::byte, header_bytes> bytes, const frame_limits& limits);

/// Returns the header for a part or a snapshot, without the checksum of the payload. The values must be a non-empty,
/// contiguous tensor on the CPU.
frame_header header_of(std::uint32_t to, const part& piece);
frame_header header_of(const snapshot& result);

/// Returns the header of a frame with a control message, given as bytes (uint8).
frame_header header_of_control(const at::Tensor& bytes);

/// Consecutive bytes of the state of a worker, or of the files of a checkpoint.
struct state_piece {
  frame_kind kind{frame_kind::state};  ///< Or `copy`.
  rank_id rank{};
  std::uint64_t number{0};  ///< Number of the request that the piece answers; for a checkpoint, its step.
  std::int64_t first{0}, total{0};
  at::Tensor bytes{};  ///< uint8, not empty.
};

frame_header header_of(const state_piece& piece);

/// A complete received frame.
struct frame {
  frame_header header;
  at::Tensor values;  ///< [elements], as encoded, 64-byte aligned, from the reader's pool; undefined without a payload.
  session_id session{};  ///< The session of a hello.

  part as_part() const;
  snapshot as_snapshot() const;
  state_piece as_state_piece() const;
};

/// Assembles frames from bytes that arrive in pieces of any size.
class frame_reader {
 public:
  frame_reader(frame_limits limits, models::buffer_pool pool) : limits_(std::move(limits)), pool_(std::move(pool)) {}

  enum class found : std::uint8_t { nothing, header, frame };

  /// Returns the memory for the next bytes, which is never empty. Allocates the payload's memory once its header is
  /// valid.
  std::span<std::byte> room();

  /// Processes `count` bytes that were written to room() and returns what they completed. Throws frame_error; bytes of
  /// another protocol are refused at the first one that differs. The reader cannot be used after that.
  found advance(std::size_t count);

  /// Returns the header of the last `found::header`.
  const frame_header& header() const { return current_.header; }

  /// Returns the frame of the last `found::frame` and gives up ownership of it.
  frame take() { return std::exchange(current_, {}); }

 private:
  found payload_complete();

  frame_limits limits_;
  models::buffer_pool pool_;
  std::array<std::byte, header_bytes> bytes_{};
  std::size_t filled_{0};  ///< Bytes received of the header, or of the payload if `in_payload_`.
  bool in_payload_{false};
  std::uint32_t crc_{0};  ///< CRC-32C of the payload received so far.
  frame current_;
};

}  // namespace troupe::transport
