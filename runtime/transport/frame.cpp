#include "troupe/runtime/transport/frame.hpp"

#include "troupe/algorithms/exchange/around/codec.hpp"
#include "troupe/algorithms/support/assert.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace troupe::transport {

namespace {

constexpr encoding none{0};
constexpr std::int64_t most = std::int64_t{1} << 48;  ///< Limit of values that are summed, so that no sum overflows.

std::span<const std::byte> bytes_of(const at::Tensor& values) {
  TROUPE_ASSERT(values.is_contiguous() && values.numel() > 0, "a payload is a non-empty, contiguous tensor");
  return {static_cast<const std::byte*>(values.const_data_ptr()), values.nbytes()};
}

[[noreturn]] void refuse(const std::string& what) {
  throw frame_error("received a frame " + what);
}

/// Checks values that may be encoded as `how`.
void check_payload(const frame_header& header, std::uint8_t dims, std::int64_t due, encoding how) {
  if ((header.how != how && header.how != encoding::float32) || dims != 1)
    refuse("with values that are not a vector of " + codec_of(how).name());
  const auto& expected = codec_of(header.how);
  if (header.elements < 1 || header.elements > static_cast<std::uint64_t>(due))
    refuse("with " + std::to_string(header.elements) + " elements; expected 1 to " + std::to_string(due));
  const auto elements = static_cast<std::int64_t>(header.elements);
  const auto is_short =
      header.payload_bytes > 0 && header.payload_bytes <= static_cast<std::uint64_t>(expected.max_bytes(elements));
  if (!is_short || !expected.may_have(static_cast<std::int64_t>(header.payload_bytes), elements))
    refuse("whose payload length does not match its number of elements");
}

void check_run(const frame_header& header, const frame_limits& limits) {
  if (header.origin.run != limits.run) refuse("of another run");
}

void check_part(const frame_header& header, const frame_limits& limits) {
  const auto for_server = limits.has_servers && header.to - limits.world_size < limits.servers;
  if (header.to - limits.first_rank >= limits.ranks && !for_server) refuse("for a rank that is not on this node");
  if (static_cast<std::uint32_t>(header.origin.sender) >= limits.world_size + limits.servers)
    refuse("from a rank that does not exist");
  if (header.what > slot::change || header.at > stage::result) refuse("with an unknown value in its field what or at");
  const auto whole = limits.exchanged[header.which.place];
  if (header.total != whole || header.first < 0 || header.first > whole - static_cast<std::int64_t>(header.elements))
    refuse("that belongs to another model");
  if (header.sample_count < 1 || header.sample_count > most) refuse("with an invalid number of samples");
  if (!std::isfinite(header.mass)) refuse("with a mass that is not finite");
}

void check_snapshot(const frame_header& header, const frame_limits& limits) {
  if (header.total != limits.total || header.elements != static_cast<std::uint64_t>(limits.total))
    refuse("with a snapshot of another model");
  if (static_cast<std::uint32_t>(header.origin.sender) >= limits.world_size) refuse("from a rank that does not exist");
  if (header.which.part > static_cast<std::uint32_t>(snapshot_time::after_mixing))
    refuse("with an unknown value in its field part");
}

/// Checks a piece of something that has at most `largest` bytes.
void check_piece(const frame_header& header, std::uint8_t dims, const std::string& of_what, std::int64_t largest) {
  if (header.how != none || dims != 0 || header.elements != 0) refuse("whose type or length is invalid for its kind");
  if (header.total < 1 || header.total > largest)
    refuse("with " + of_what + " of " + std::to_string(header.total) + " bytes; expected 1 to " +
           std::to_string(largest));
  const auto bytes = header.payload_bytes;
  if (bytes < 1 || bytes > state_piece_bytes || header.first < 0 || header.first > header.total ||
      bytes > static_cast<std::uint64_t>(header.total - header.first))
    refuse("whose payload does not fit " + of_what);
}

void check_state(const frame_header& header, std::uint8_t dims, const frame_limits& limits) {
  check_piece(header, dims, "a state", limits.largest_state());
  if (static_cast<std::uint32_t>(header.origin.sender) >= limits.world_size) refuse("from a rank that does not exist");
  if (!limits.has_servers && header.to - limits.first_rank >= limits.ranks)
    refuse("for a rank that is not on this node");
}

void check_copy(const frame_header& header, std::uint8_t dims, const frame_limits& limits) {
  if (!limits.keeps_copies) refuse("with a checkpoint, of which this node keeps no copy");
  check_piece(header, dims, "a checkpoint", limits.largest_copy());
  if (header.to != 0 || header.origin.sender != rank_id{0}) refuse("with a checkpoint of a worker");
}

/// Checks a frame without values, whose payload may have `least` to `largest` bytes.
void check_bare(const frame_header& header, std::uint8_t dims, std::uint64_t least, std::uint64_t largest) {
  if (header.how != none || dims != 0 || header.elements != 0 || header.payload_bytes < least ||
      header.payload_bytes > largest)
    refuse("whose type or length is invalid for its kind");
}

void check_grant(const frame_header& header) {
  if (header.total < 1 || header.total > most) refuse("that grants no credit or too much");
}

}  // namespace

bool belongs(frame_kind kind, plane where) {
  switch (kind) {
    case frame_kind::hello:
      return false;
    case frame_kind::credit:
    case frame_kind::beat:
      return true;
    case frame_kind::control:
      return where != plane::tensors;
    case frame_kind::part:
    case frame_kind::state:
      return where != plane::control;
    default:
      return where == plane::tensors;
  }
}

std::uint64_t frame_limits::largest_payload() const {
  auto most = total;
  for (const auto elements : exchanged) most = std::max(most, elements);
  return std::max({static_cast<std::uint64_t>(most) * sizeof(float), static_cast<std::uint64_t>(state_piece_bytes),
                   largest_control});
}

std::array<std::byte, header_bytes> encode(const frame_header& header) {
  return write_header(header);
}

frame_header decode(std::span<const std::byte, header_bytes> bytes, const frame_limits& limits) {
  std::uint8_t dims = 0;
  const auto header = read_header<frame_header>(bytes, dims);
  switch (header.kind) {
    case frame_kind::hello:
      check_bare(header, dims, sizeof(session_id), sizeof(session_id));
      check_grant(header);
      if (header.which.place > static_cast<std::uint32_t>(plane::actor)) refuse("for an unknown plane");
      return header;
    case frame_kind::credit:
      check_bare(header, dims, 0, 0);
      check_grant(header);
      return header;
    case frame_kind::control:
      check_bare(header, dims, 1, limits.largest_control);
      return header;
    case frame_kind::beat:
      check_bare(header, dims, 0, 0);
      return header;
    case frame_kind::part:
      if (header.which.place >= limits.exchanged.size()) refuse("for an exchange that does not exist");
      check_payload(header, dims, limits.exchanged[header.which.place], limits.encoding_of(header.which.place));
      check_part(header, limits);
      check_run(header, limits);
      return header;
    case frame_kind::snapshot:
      check_payload(header, dims, limits.total, encoding::float32);
      check_snapshot(header, limits);
      check_run(header, limits);
      return header;
    case frame_kind::state:
      check_state(header, dims, limits);
      return header;
    case frame_kind::copy:
      check_copy(header, dims, limits);
      return header;
  }
  refuse("of an unknown kind");
}

frame_header header_of(std::uint32_t to, const part& piece) {
  const auto payload = bytes_of(piece.piece.values);
  return {.kind = frame_kind::part,
          .to = to,
          .what = piece.what,
          .at = piece.at,
          .origin = piece.origin,
          .which = piece.which,
          .how = piece.how,
          .first = piece.piece.first,
          .total = piece.total,
          .sample_count = piece.sample_count,
          .mass = piece.mass,
          .elements = static_cast<std::uint64_t>(elements_of(piece)),
          .payload_bytes = payload.size()};
}

frame_header header_of(const snapshot& result) {
  const auto payload = bytes_of(result.values);
  return {.kind = frame_kind::snapshot,
          .origin = result.origin,
          .which = {.part = static_cast<std::uint32_t>(result.taken)},
          .total = result.values.numel(),
          .elements = static_cast<std::uint64_t>(result.values.numel()),
          .payload_bytes = payload.size()};
}

part frame::as_part() const {
  return {.origin = header.origin,
          .which = header.which,
          .what = header.what,
          .at = header.at,
          .how = header.how,
          .piece = {header.first, values},
          .elements = header.how == encoding::float32 ? 0 : static_cast<std::int64_t>(header.elements),
          .total = header.total,
          .sample_count = header.sample_count,
          .mass = header.mass};
}

frame_header header_of(const state_piece& piece) {
  const auto payload = bytes_of(piece.bytes);
  return {.kind = piece.kind,
          .to = static_cast<std::uint32_t>(piece.rank),
          .origin = {.sender = piece.rank, .step = piece.number},
          .first = piece.first,
          .total = piece.total,
          .payload_bytes = payload.size()};
}

state_piece frame::as_state_piece() const {
  return {.kind = header.kind,
          .rank = header.origin.sender,
          .number = header.origin.step,
          .first = header.first,
          .total = header.total,
          .bytes = values};
}

frame_header header_of_control(const at::Tensor& bytes) {
  const auto payload = bytes_of(bytes);
  return {.kind = frame_kind::control, .payload_bytes = payload.size()};
}

snapshot frame::as_snapshot() const {
  return {.origin = header.origin, .values = values, .taken = static_cast<snapshot_time>(header.which.part)};
}

namespace {

/// Returns memory for the values as they are transmitted. It is from the pool, which has float32 only, except for
/// control messages.
at::Tensor room_for(const frame_header& header, models::buffer_pool& pool) {
  const auto elements = static_cast<std::int64_t>(header.elements);
  if (header.how == encoding::float32) return pool.take(elements);
  const auto bytes = static_cast<std::int64_t>(header.payload_bytes);
  if (header.kind == frame_kind::control) return at::empty({bytes}, at::kByte);  // rare, and of many lengths
  const auto floats = (bytes + 3) / 4;
  if (header.how == none) return pool.take(floats).view(at::kByte).narrow(0, 0, bytes);
  const auto type = codec_of(header.how).payload_type();
  return pool.take(floats).view(type).narrow(0, 0, bytes / static_cast<std::int64_t>(c10::elementSize(type)));
}

}  // namespace

std::span<std::byte> frame_reader::room() {
  if (!in_payload_) return std::span{bytes_}.subspan(filled_);
  if (current_.header.kind == frame_kind::hello) return std::span{current_.session}.subspan(filled_);
  if (!current_.values.defined()) current_.values = room_for(current_.header, pool_);
  auto* begin = static_cast<std::byte*>(current_.values.mutable_data_ptr());
  return {begin + filled_, current_.header.payload_bytes - filled_};
}

frame_reader::found frame_reader::advance(std::size_t count) {
  const auto put = room();
  TROUPE_ASSERT(count <= put.size(), "a reader is given at most the bytes that it has room for");
  filled_ += count;
  if (in_payload_) {
    crc_ = crc32c(put.first(count), crc_);  // now, while it is in the cache
    return count < put.size() ? found::nothing : payload_complete();
  }
  check_mark(bytes_, filled_);
  if (count < put.size()) return found::nothing;
  current_ = {};
  current_.header = decode(bytes_, limits_);
  filled_ = 0;
  if (current_.header.payload_bytes == 0) return found::frame;
  in_payload_ = true;
  crc_ = 0;
  return found::header;
}

frame_reader::found frame_reader::payload_complete() {
  if (crc_ != current_.header.payload_crc) refuse("whose payload was damaged in transit");
  in_payload_ = false;
  filled_ = 0;
  return found::frame;
}

}  // namespace troupe::transport
