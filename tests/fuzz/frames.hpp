// Streams of bytes from a peer, and the invariants that a connection must keep for any of them; shared by the fuzz
// target and a unit test. A stream starts with control bytes (the preceding frames, the division into pieces, whether
// receipts are held), followed by the bytes that the peer sends.
#pragma once

#include "tests/support/control_messages.hpp"

#include "troupe/algorithms/support/assert.hpp"
#include "troupe/files/crc32c.hpp"
#include "troupe/runtime/tcp/connection.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <string_view>
#include <unistd.h>
#include <vector>

namespace troupe::fuzz {

namespace wire = transport;

using bytes = std::vector<std::uint8_t>;
using engine = std::minstd_rand;

// Layers small enough for many in one stream; a part takes at most one page of memory, a snapshot two.
inline const wire::frame_limits limits{.run = run_id{7},
                                       .world_size = 4,
                                       .first_rank = 1,
                                       .ranks = 2,
                                       .exchanged = {1024, 1024},
                                       .total = 1100,
                                       .largest_control = 2048};
constexpr std::int64_t page = 4096, pages = 16;
constexpr std::size_t most_pieces = 256;  ///< What is left of a stream then comes in one.
constexpr wire::session_id session{std::byte{'s'}, std::byte{'e'}, std::byte{'c'},
                                   std::byte{'r'}, std::byte{'e'}, std::byte{'t'}};

// Where a header's fields lie; docs/protocol.md.
struct field {
  std::size_t at, size;
};
constexpr std::array<field, 22> fields{{{0, 4},  {4, 2},  {6, 1},  {7, 1},  {8, 1},  {9, 1},  {10, 1}, {11, 1},
                                        {12, 4}, {16, 8}, {24, 4}, {28, 4}, {32, 8}, {40, 8}, {48, 4}, {52, 4},
                                        {56, 8}, {64, 8}, {72, 8}, {80, 8}, {88, 8}, {96, 8}}};
constexpr std::size_t payload_bytes_at = 96, payload_crc_at = 104, header_crc_at = 108;

inline std::uint64_t below(engine& random, std::uint64_t end) {
  return std::uniform_int_distribution<std::uint64_t>{0, end - 1}(random);
}

inline void append(bytes& stream, std::span<const std::byte> more) {
  const auto* begin = reinterpret_cast<const std::uint8_t*>(more.data());
  stream.insert(stream.end(), begin, begin + more.size());
}

inline void append_hello(bytes& stream, const wire::session_id& from = session,
                         wire::plane where = wire::plane::tensors) {
  append(stream, wire::encode({.kind = wire::frame_kind::hello,
                               .to = 1,
                               .which = {.place = static_cast<std::uint32_t>(where)},
                               .total = page * pages,
                               .payload_bytes = from.size(),
                               .payload_crc = troupe::crc32c(from)}));
  append(stream, from);
}

/// Appends a good frame of any kind.
inline void append_frame(bytes& stream, engine& random) {
  const auto values = [&](std::uint64_t count) {
    std::vector<float> result(count);
    for (auto& value : result) value = static_cast<float>(below(random, 1000));
    return result;
  };
  const auto append_payload = [&](wire::frame_header header, const std::vector<float>& payload) {
    const auto raw = std::as_bytes(std::span{payload});
    header.elements = payload.size();
    header.payload_bytes = raw.size();
    header.payload_crc = troupe::crc32c(raw);
    append(stream, wire::encode(header));
    append(stream, raw);
  };
  const stamp origin{.run = run_id{7}, .sender = rank_id{static_cast<std::uint32_t>(below(random, 4))}, .step = 3};
  switch (below(random, 16)) {
    case 0:
      return append_hello(stream, session, below(random, 2) == 0 ? wire::plane::tensors : wire::plane::control);
    case 3:
      return append(stream, wire::encode({.kind = wire::frame_kind::beat}));
    case 4: {
      static const auto messages = tests::one_of_each();
      const auto text = control::encode(messages[below(random, messages.size())]);
      append(stream, wire::encode({.kind = wire::frame_kind::control,
                                   .payload_bytes = text.size(),
                                   .payload_crc = troupe::crc32c(text)}));
      return append(stream, text);
    }
    case 1:
      return append(stream, wire::encode({.kind = wire::frame_kind::credit,
                                          .total = page * (1 + static_cast<int>(below(random, 4)))}));
    case 2:
      return append_payload({.kind = wire::frame_kind::snapshot, .origin = origin, .total = limits.total},
                            values(static_cast<std::uint64_t>(limits.total)));
    default: {
      const auto count = below(random, 4) == 0 ? 1024 : 1 + below(random, 40);
      return append_payload({.kind = wire::frame_kind::part,
                             .to = 1 + static_cast<std::uint32_t>(below(random, 2)),
                             .origin = origin,
                             .first = static_cast<std::int64_t>(below(random, 1025 - count)),
                             .total = limits.exchanged.front(),
                             .sample_count = 1 + static_cast<std::int64_t>(below(random, 64))},
                            values(count));
    }
  }
}

/// Where the stream's headers begin, as their lengths say.
inline std::vector<std::size_t> headers(const bytes& stream) {
  std::vector<std::size_t> found;
  constexpr std::array<std::uint8_t, 4> magic{'T', 'T', 'R', 'P'};
  for (auto at = stream.begin();;) {
    at = std::search(at, stream.end(), magic.begin(), magic.end());
    const auto left = static_cast<std::size_t>(stream.end() - at);
    if (left < wire::header_bytes) return found;
    found.push_back(static_cast<std::size_t>(at - stream.begin()));
    std::uint64_t payload = 0;
    std::memcpy(&payload, &*at + payload_bytes_at, sizeof(payload));
    at += static_cast<std::ptrdiff_t>(wire::header_bytes + (payload <= left - wire::header_bytes ? payload : 0));
  }
}

/// Makes checksums right again: without it, nothing that was changed gets beyond the first check.
inline void repair(bytes& stream) {
  for (const auto at : headers(stream)) {
    auto* header = stream.data() + at;
    const auto left = stream.size() - at - wire::header_bytes;
    std::uint64_t payload = 0;
    std::memcpy(&payload, header + payload_bytes_at, sizeof(payload));
    const auto crc_of = [&](const std::uint8_t* begin, std::size_t count, std::size_t to) {
      const auto crc = troupe::crc32c({reinterpret_cast<const std::byte*>(begin), count});
      std::memcpy(header + to, &crc, sizeof(crc));
    };
    if (payload <= left) crc_of(header + wire::header_bytes, payload, payload_crc_at);
    crc_of(header, header_crc_at, header_crc_at);
  }
}

/// Puts a number that is on some edge into some field of some header.
inline void mutate_field(bytes& stream, engine& random) {
  const auto found = headers(stream);
  if (found.empty()) return append_frame(stream, random);
  const auto& where = fields[below(random, fields.size())];
  const std::array<std::uint64_t, 16> edges{0,
                                            1,
                                            2,
                                            3,
                                            4,
                                            112,
                                            1023,
                                            1024,
                                            1025,
                                            1100,
                                            4400,
                                            std::uint64_t{1} << 48,
                                            std::uint64_t{1} << 63,
                                            (std::uint64_t{1} << 63) - 1,
                                            ~std::uint64_t{0},
                                            below(random, 1 << 20)};
  const auto value = edges[below(random, edges.size())];
  std::memcpy(stream.data() + found[below(random, found.size())] + where.at, &value, where.size);
}

/// Changes a stream in some way that knows what it is made of.
inline void mutate(bytes& stream, engine& random) {
  if (stream.empty()) stream = {static_cast<std::uint8_t>(below(random, 256))};
  switch (below(random, 6)) {
    case 0:
      stream[0] = static_cast<std::uint8_t>(below(random, 256));
      break;
    case 1:
      stream[below(random, stream.size())] ^= static_cast<std::uint8_t>(1 << below(random, 8));
      break;
    case 2:
      stream.resize(1 + below(random, stream.size()));
      break;
    case 3:
    case 4:
      mutate_field(stream, random);
      break;
    default:
      append_frame(stream, random);
  }
  if (below(random, 4) != 0) repair(stream);
}

/// Whether the connection of a stream with this first byte awaits a proof of a secret, which no stream contains.
inline bool has_secret(std::uint8_t control) {
  return (control & 0xe1) == 0xe0;
}

/// Returns control bytes and some good frames.
inline bytes seed(engine& random) {
  bytes stream{static_cast<std::uint8_t>(below(random, 256))};
  for (auto cuts = (stream[0] >> 2) % 8; cuts > 0; --cuts)
    stream.push_back(static_cast<std::uint8_t>(below(random, 256)));
  if (has_secret(stream[0])) {
    append(stream, std::as_bytes(std::span{std::string_view{"TROUPE\r\n"}}));
    for (auto bytes = below(random, 80); bytes > 0; --bytes)  // the challenge, and a proof
      stream.push_back(static_cast<std::uint8_t>(below(random, 256)));
  }
  if (below(random, 4) == 0) append_hello(stream);
  for (auto count = 1 + below(random, 6); count > 0; --count) append_frame(stream, random);
  return stream;
}

/// Nodes of two ranks each.
inline const std::vector<control::node_ranks> nodes{{0, 2}, {2, 2}, {4, 2}};

/// Reads the bytes of a control message as a node does. What can be read can be written again, and is then the same.
inline void hear_control(std::span<const std::byte> text) try {
  const auto what = control::decode(text);
  const auto written = control::encode(what);
  TROUPE_ASSERT(control::encode(control::decode(written)) == written, "a message is read as it was written");
  TROUPE_ASSERT(!control::name_of(what).empty(), "a message has a name");
  for (std::uint32_t from = 0; from < nodes.size(); ++from)
    for (std::uint32_t to = 0; to < nodes.size(); ++to) try {
        control::check(what, nodes, from, to);
        TROUPE_ASSERT((from == 0) != (to == 0), "messages go to the first node or come from it");
      } catch (const wire::frame_error&) {
      }
} catch (const wire::frame_error&) {
}

/// What came of a stream.
struct verdict {
  std::size_t arrived{0};
  bool greeted{false}, refused{false};
};

/// Says a stream to a connection, and checks on the way: nothing arrives before a hello of the session, nothing beyond
/// the limits, no more memory is taken than the window allows; no grants for what was not sent; and nothing of the
/// connection is left afterwards.
inline verdict drive(std::span<const std::uint8_t> input) {
  namespace asio = boost::asio;
  static const auto io = std::make_shared<asio::io_context>(1);
  verdict result;
  if (input.empty()) return result;
  const auto control = input[0];
  const bool greeted_before = control & 1, holds = control & 2, outlives = control & 32, proves = has_secret(control);
  const auto cuts = input.subspan(1, std::min<std::size_t>((control >> 2) % 8, input.size() - 1));
  auto rest = input.subspan(1 + cuts.size());

  int ends[2];
  TROUPE_ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0, "there are descriptors");
  asio::ip::tcp::socket socket{*io};
  socket.assign(asio::ip::tcp::v4(), ends[0]);
  const models::buffer_pool pool;
  std::vector<std::pair<wire::frame, std::shared_ptr<const void>>> held;
  std::int64_t cost = 0;
  auto where = wire::plane::tensors;
  static const auto secret = wire::secret_channels({.of_nodes = security::shared_secret{}});
  const auto channels = proves ? secret : wire::plain_channels();
  auto subject = std::make_shared<wire::connection>(
      wire::connection_options{.io = io, .limits = limits, .pool = pool, .window = page * pages}, std::move(socket),
      channels->accepted(ends[0]),
      wire::connection::listener{
          .greeted =
              [&](const auto& who, const wire::frame& hello) {
                TROUPE_ASSERT(!result.greeted, "one hello is enough");
                TROUPE_ASSERT(!proves, "nobody is greeted without a proof");
                result.greeted = hello.session == session && hello.header.to == 1;
                where = static_cast<wire::plane>(hello.header.which.place);
                if (result.greeted) who->greet(0, session, where, wire::control_carrier::frames);
                return result.greeted;
              },
          .foreign = [](const auto&) { return false; },
          .arrived =
              [&](const auto&, wire::frame&& came, std::shared_ptr<const void> receipt) {
                TROUPE_ASSERT(wire::belongs(came.header.kind, where), "a frame belongs to the plane of its connection");
                ++result.arrived;
                TROUPE_ASSERT(result.greeted, "a frame comes after the hello");
                TROUPE_ASSERT(came.values.nbytes() == came.header.payload_bytes, "values are as long as was said");
                TROUPE_ASSERT(came.values.nbytes() <= limits.largest_payload(), "no payload is beyond the largest");
                TROUPE_ASSERT(std::bit_cast<std::uintptr_t>(came.values.const_data_ptr()) % 64 == 0,
                              "values are aligned");
                if (came.header.kind == wire::frame_kind::control)
                  hear_control({static_cast<const std::byte*>(came.values.const_data_ptr()), came.values.nbytes()});
                cost += wire::cost_of(came.header.payload_bytes);
                if (holds) held.emplace_back(std::move(came), std::move(receipt));
              },
          .closed =
              [&](const auto&, const wire::connection_loss& how) {
                TROUPE_ASSERT(!result.refused && !how.text.empty(), "a connection closes once, and says why");
                result.refused = true;
              }});
  const auto poll = [] {
    io->restart();
    io->poll();
  };
  subject->start(std::chrono::hours{1});
  const auto say = [&](std::span<const std::uint8_t> words) {
    while (!words.empty() && !result.refused) {
      const auto count = ::send(ends[1], words.data(), words.size(), MSG_NOSIGNAL);
      if (count > 0) words = words.subspan(static_cast<std::size_t>(count));
      poll();
    }
  };
  bytes before;
  if (greeted_before) append_hello(before, session, control & 64 ? wire::plane::control : wire::plane::tensors);
  say(before);
  for (std::size_t i = 0; !rest.empty() && !result.refused; ++i) {
    const auto whole = cuts.empty() || i >= most_pieces;
    const auto length = whole ? rest.size() : std::min<std::size_t>(rest.size(), 1 + cuts[i % cuts.size()]);
    say(rest.first(length));
    rest = rest.subspan(length);
    TROUPE_ASSERT(pool.allocated() <= (holds ? pages : 2), "a window bounds the memory");
  }

  if (!outlives) held.clear();
  poll();
  std::int64_t granted = 0;
  wire::frame_reader reader{limits, pool};
  while (!proves) {  // the answers of a handshake are no frames
    const auto room = reader.room();
    const auto count = ::recv(ends[1], room.data(), room.size(), 0);
    if (count <= 0) break;
    if (reader.advance(static_cast<std::size_t>(count)) != wire::frame_reader::found::frame) continue;
    const auto answer = reader.take().header;
    TROUPE_ASSERT(result.greeted, "strangers are told nothing");
    if (answer.kind == wire::frame_kind::credit) granted += answer.total;
  }
  TROUPE_ASSERT(granted <= cost, "what is granted was taken before");

  subject->close();
  poll();
  TROUPE_ASSERT(subject.use_count() == 1, "nothing holds a connection that is closed");
  ::close(ends[1]);
  return result;  // receipts still held outlive the connection
}

}  // namespace troupe::fuzz
