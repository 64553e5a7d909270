// Frames as bytes, and which frames are rejected.
#include "troupe/runtime/transport/frame.hpp"

#include "tests/fuzz/frames.hpp"
#include "tests/support/doctest.hpp"
#include "tests/support/sealed.hpp"

#include "troupe/files/crc32c.hpp"
#include "troupe/runtime/transport/state_frames.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

namespace transport_frame_test {

using namespace troupe;
using namespace troupe::transport;
using troupe::testing::sealed;

namespace {

using header_array = std::array<std::byte, header_bytes>;
using found = frame_reader::found;

const frame_limits limits{.run = run_id{0x0102030405060708},
                          .world_size = 4,
                          .first_rank = 1,
                          .ranks = 2,
                          .exchanged = {1024, 1024},
                          .total = 1100};

at::Tensor counting(std::int64_t count) {
  return at::arange(count, at::kFloat);
}

part some_part(std::int64_t first = 16, std::int64_t count = 40) {
  return {.origin = {.run = run_id{0x0102030405060708},
                     .sender = rank_id{3},
                     .generation = 9,
                     .step = std::uint64_t{1} << 40,
                     .version = 11},
          .which = {.place = 1, .part = 12},
          .what = slot::change,
          .at = stage::result,
          .piece = {first, counting(count)},
          .total = 1024,
          .sample_count = 64,
          .mass = 0.75};
}

snapshot some_snapshot() {
  return {.origin = {.run = run_id{0x0102030405060708}, .sender = rank_id{2}, .step = 7}, .values = counting(1100)};
}

constexpr session_id session{std::byte{1}, std::byte{2}, std::byte{3}};

frame_header some_hello() {
  return {.kind = frame_kind::hello,
          .to = 2,
          .total = std::int64_t{1} << 24,
          .payload_bytes = session.size(),
          .payload_crc = crc32c(session)};
}

std::vector<std::byte> bytes_of(const frame_header& header, std::span<const std::byte> payload = {}) {
  const auto encoded = encode(header);
  std::vector<std::byte> result(encoded.size() + payload.size());
  std::copy(payload.begin(), payload.end(), std::copy(encoded.begin(), encoded.end(), result.begin()));
  return result;
}

std::vector<std::byte> bytes_of(const frame_header& header, const at::Tensor& values) {
  return bytes_of(header, std::span{static_cast<const std::byte*>(values.const_data_ptr()), values.nbytes()});
}

/// Feeds all bytes, at most `next` at once and as far as there is room. Returns the frames.
std::vector<frame> read(frame_reader& reader, std::span<const std::byte> bytes,
                        const std::function<std::size_t()>& next) {
  std::vector<frame> frames;
  while (!bytes.empty()) {
    const auto room = reader.room();
    REQUIRE_FALSE(room.empty());
    const auto count = std::min({next(), room.size(), bytes.size()});
    std::memcpy(room.data(), bytes.data(), count);
    bytes = bytes.subspan(count);
    if (reader.advance(count) == found::frame) frames.push_back(reader.take());
  }
  return frames;
}

std::vector<frame> read(frame_reader&& reader, std::span<const std::byte> bytes) {
  return read(reader, bytes, [] { return std::numeric_limits<std::size_t>::max(); });
}

template <class T>
T field_at(const header_array& bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

/// Puts `value` at an offset of a header and updates its checksum.
template <class T>
header_array with(header_array bytes, std::size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof(T));
  const auto crc = crc32c(std::span{bytes}.first(108));
  std::memcpy(bytes.data() + 108, &crc, sizeof(crc));
  return bytes;
}

std::string refusal(const header_array& bytes) {
  try {
    decode(bytes, limits);
  } catch (const frame_error& problem) {
    return problem.what();
  }
  return "";
}

}  // namespace

TEST_CASE("CRC-32C is that of Castagnoli, in one go or in pieces") {
  const char digits[] = "123456789";
  const auto bytes = std::as_bytes(std::span{digits, 9});
  CHECK(crc32c(bytes) == 0xe3069283);
  CHECK(crc32c({}) == 0);
  for (std::size_t cut = 0; cut <= 9; ++cut) CHECK(crc32c(bytes.subspan(cut), crc32c(bytes.first(cut))) == 0xe3069283);
}

TEST_CASE("every field of a header lies where docs/protocol.md says") {
  static_assert(header_bytes == 112);
  const auto piece = some_part();
  const auto bytes = encode(sealed(header_of(2, piece), piece.piece.values));
  CHECK(std::memcmp(bytes.data(), "TTRP", 4) == 0);
  CHECK(field_at<std::uint16_t>(bytes, 4) == protocol_version);
  CHECK(field_at<std::uint8_t>(bytes, 6) == 2);   // part
  CHECK(field_at<std::uint8_t>(bytes, 7) == 1);   // float32
  CHECK(field_at<std::uint8_t>(bytes, 8) == 1);   // dimensions
  CHECK(field_at<std::uint8_t>(bytes, 9) == 2);   // change
  CHECK(field_at<std::uint8_t>(bytes, 10) == 2);  // result
  CHECK(field_at<std::uint8_t>(bytes, 11) == 0);
  CHECK(field_at<std::uint32_t>(bytes, 12) == 2);
  CHECK(field_at<std::uint64_t>(bytes, 16) == 0x0102030405060708);
  CHECK(field_at<std::uint32_t>(bytes, 24) == 3);
  CHECK(field_at<std::uint32_t>(bytes, 28) == 9);
  CHECK(field_at<std::uint64_t>(bytes, 32) == std::uint64_t{1} << 40);
  CHECK(field_at<std::uint64_t>(bytes, 40) == 11);
  CHECK(field_at<std::uint32_t>(bytes, 48) == 1);
  CHECK(field_at<std::uint32_t>(bytes, 52) == 12);
  CHECK(field_at<std::int64_t>(bytes, 56) == 16);
  CHECK(field_at<std::int64_t>(bytes, 64) == 1024);
  CHECK(field_at<std::int64_t>(bytes, 72) == 64);
  CHECK(field_at<double>(bytes, 80) == 0.75);
  CHECK(field_at<std::uint64_t>(bytes, 88) == 40);
  CHECK(field_at<std::uint64_t>(bytes, 96) == 160);
  const auto values = piece.piece.values;
  CHECK(field_at<std::uint32_t>(bytes, 104) == crc32c({static_cast<const std::byte*>(values.const_data_ptr()), 160}));
  CHECK(field_at<std::uint32_t>(bytes, 108) == crc32c(std::span{bytes}.first(108)));
  // Little-endian, byte by byte.
  CHECK(std::to_integer<int>(bytes[16]) == 8);
  CHECK(std::to_integer<int>(bytes[23]) == 1);
}

TEST_CASE("a part, a snapshot, a hello and a credit come back as they were sent") {
  const auto piece = some_part();
  const auto result = some_snapshot();
  std::vector<std::byte> stream;
  const auto append = [&](const std::vector<std::byte>& more) {
    stream.insert(stream.end(), more.begin(), more.end());
  };
  append(bytes_of(some_hello(), session));
  append(bytes_of(sealed(header_of(2, piece), piece.piece.values), piece.piece.values));
  append(bytes_of({.kind = frame_kind::credit, .total = 8192}));
  append(bytes_of(sealed(header_of(result), result.values), result.values));
  append(bytes_of({.kind = frame_kind::credit, .total = std::int64_t{1} << 48}));
  auto given_away = some_snapshot();
  given_away.taken = snapshot_time::after_mixing;
  append(bytes_of(sealed(header_of(given_away), given_away.values), given_away.values));

  const auto check = [&](const std::vector<frame>& frames) {
    REQUIRE(frames.size() == 6);
    CHECK(frames[0].header.kind == frame_kind::hello);
    CHECK(frames[0].header.to == 2);
    CHECK(frames[0].header.total == std::int64_t{1} << 24);
    CHECK(frames[0].session == session);
    CHECK_FALSE(frames[0].values.defined());

    CHECK(frames[1].header.to == 2);
    const auto came = frames[1].as_part();
    CHECK(came.origin.run == piece.origin.run);
    CHECK(came.origin.sender == piece.origin.sender);
    CHECK(came.origin.generation == piece.origin.generation);
    CHECK(came.origin.step == piece.origin.step);
    CHECK(came.origin.version == piece.origin.version);
    CHECK(came.which.place == 1);
    CHECK(came.which.part == 12);
    CHECK(came.what == slot::change);
    CHECK(came.at == stage::result);
    CHECK(came.piece.first == 16);
    CHECK(at::equal(came.piece.values, counting(40)));
    CHECK(came.total == 1024);
    CHECK(came.sample_count == 64);
    CHECK(came.mass == 0.75);

    CHECK(frames[2].header.kind == frame_kind::credit);
    CHECK(frames[2].header.total == 8192);

    const auto whole = frames[3].as_snapshot();
    CHECK(whole.origin.sender == rank_id{2});
    CHECK(whole.origin.step == 7);
    CHECK(at::equal(whole.values, counting(1100)));
    CHECK(whole.taken == snapshot_time::after_step);
    CHECK(frames[5].as_snapshot().taken == snapshot_time::after_mixing);

    CHECK(frames[4].header.total == std::int64_t{1} << 48);
    for (const auto& one : frames)
      if (one.values.defined()) CHECK(reinterpret_cast<std::uintptr_t>(one.values.const_data_ptr()) % 64 == 0);
  };
  const models::buffer_pool pool;
  check(read(frame_reader{limits, pool}, stream));
  frame_reader bytewise{limits, pool};
  check(read(bytewise, stream, [] { return std::size_t{1}; }));
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::minstd_rand random{seed};
    frame_reader reader{limits, pool};
    check(read(reader, stream, [&] { return std::uniform_int_distribution<std::size_t>{1, 300}(random); }));
  }
}

TEST_CASE("a bit that flips on the way is noticed, wherever it is") {
  const auto piece = some_part();
  const auto stream = bytes_of(sealed(header_of(2, piece), piece.piece.values), piece.piece.values);
  const models::buffer_pool pool;
  REQUIRE(read(frame_reader{limits, pool}, stream).size() == 1);
  for (std::size_t bit = 0; bit < 8 * stream.size(); ++bit) {
    auto damaged = stream;
    damaged[bit / 8] ^= std::byte{1} << (bit % 8);
    CAPTURE(bit);
    CHECK_THROWS_AS(read(frame_reader{limits, pool}, damaged), frame_error);
  }
}

TEST_CASE("a header that asks for the impossible is refused in words, and nothing is allocated for it") {
  constexpr auto lowest = std::numeric_limits<std::int64_t>::min(), highest = std::numeric_limits<std::int64_t>::max();
  constexpr auto infinity = std::numeric_limits<double>::infinity();
  const auto good = encode(header_of(2, some_part()));
  const auto whole = encode(header_of(some_snapshot()));
  const auto hello = encode(some_hello());
  const auto credit = encode({.kind = frame_kind::credit, .total = 8});
  const auto control = encode({.kind = frame_kind::control, .payload_bytes = limits.largest_control});
  const auto beat = encode({.kind = frame_kind::beat});
  for (const auto& header : {good, whole, hello, credit, control, beat}) REQUIRE(refusal(header).empty());
  const auto refuses = [&](const header_array& bytes, const std::string& words) {
    CHECK(refusal(bytes).find(words) != std::string::npos);
    const models::buffer_pool pool;
    CHECK_THROWS_AS(read(frame_reader{limits, pool}, bytes), frame_error);
    CHECK(pool.allocated() == 0);
  };

  refuses(with(good, 0, std::uint32_t{0}), "not a Troupe frame");
  refuses(with(good, 4, std::uint16_t{1}), "protocol 1; expected protocol 10");
  for (const int kind : {0, 9, 255}) refuses(with(good, 6, static_cast<std::uint8_t>(kind)), "unknown kind");
  refuses(with(good, 7, std::uint8_t{2}), "not a vector of float32");
  refuses(with(good, 8, std::uint8_t{2}), "not a vector of float32");
  refuses(with(good, 9, std::uint8_t{3}), "unknown value in its field what or at");
  refuses(with(good, 10, std::uint8_t{3}), "unknown value in its field what or at");
  for (const std::uint32_t rank : {0u, 3u, ~0u}) refuses(with(good, 12, rank), "not on this node");
  for (const std::uint32_t rank : {4u, ~0u}) {
    refuses(with(good, 24, rank), "rank that does not exist");
    refuses(with(whole, 24, rank), "rank that does not exist");
  }
  for (const auto& header : {good, whole}) refuses(with(header, 16, std::uint64_t{9}), "of another run");
  refuses(with(good, 48, std::uint32_t{2}), "exchange that does not exist");
  for (const std::int64_t first : {std::int64_t{-1}, std::int64_t{985}, lowest, highest})
    refuses(with(good, 56, first), "belongs to another model");
  for (const std::int64_t total : {std::int64_t{0}, std::int64_t{1023}, std::int64_t{1100}, lowest, highest})
    refuses(with(good, 64, total), "belongs to another model");
  for (const std::int64_t count : {std::int64_t{0}, std::int64_t{-1}, lowest, highest})
    refuses(with(good, 72, count), "invalid number of samples");
  for (const double mass : {infinity, -infinity, std::nan("")}) refuses(with(good, 80, mass), "not finite");
  for (const std::uint64_t elements :
       {std::uint64_t{0}, std::uint64_t{1025}, std::uint64_t{1} << 62, ~std::uint64_t{0}}) {
    refuses(with(good, 88, elements), "elements");
    refuses(with(with(good, 88, elements), 96, 4 * elements), "elements");  // 2^62 · 4 is 0
  }
  for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{164}, std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
    refuses(with(good, 96, bytes), "does not match its number of elements");
    refuses(with(whole, 96, bytes), "does not match its number of elements");
    refuses(with(hello, 96, bytes), "type or length is invalid for its kind");
    if (bytes > 0) refuses(with(credit, 96, bytes), "type or length is invalid for its kind");
  }
  refuses(with(with(whole, 88, std::uint64_t{1024}), 96, std::uint64_t{4096}), "snapshot of another model");
  refuses(with(whole, 64, std::int64_t{1024}), "snapshot of another model");
  refuses(with(whole, 52, std::uint32_t{3}), "unknown value in its field part");
  refuses(with(control, 96, limits.largest_control + 1), "type or length is invalid for its kind");
  refuses(with(control, 96, std::uint64_t{0}), "type or length is invalid for its kind");
  refuses(with(beat, 96, std::uint64_t{1}), "type or length is invalid for its kind");
  refuses(with(hello, 48, std::uint32_t{3}), "for an unknown plane");
  for (const auto& empty : {hello, credit, control, beat}) {
    refuses(with(empty, 7, std::uint8_t{1}), "type or length is invalid for its kind");
    refuses(with(empty, 8, std::uint8_t{1}), "type or length is invalid for its kind");
    refuses(with(empty, 88, std::uint64_t{1}), "type or length is invalid for its kind");
  }
  for (const auto& granting : {hello, credit}) {
    for (const std::int64_t total : {std::int64_t{0}, std::int64_t{-1}, (std::int64_t{1} << 48) + 1, lowest, highest})
      refuses(with(granting, 64, total), "grants no credit or too much");
  }
}

TEST_CASE("servers are called by the numbers behind the ranks, and only their node takes what is for them") {
  auto with_servers = limits;
  with_servers.servers = 2;
  const auto to_server = encode(header_of(5, some_part()));
  CHECK_THROWS_WITH_AS(decode(to_server, with_servers), "received a frame for a rank that is not on this node",
                       frame_error);
  with_servers.has_servers = true;
  CHECK(decode(to_server, with_servers).to == 5);
  CHECK_THROWS_AS(decode(encode(header_of(6, some_part())), with_servers), frame_error);
  auto from_server = header_of(2, some_part());
  from_server.origin.sender = rank_id{5};
  CHECK(decode(encode(from_server), with_servers).origin.sender == rank_id{5});
  CHECK_THROWS_AS(decode(encode(from_server), limits), frame_error);
  from_server.origin.sender = rank_id{6};
  CHECK_THROWS_AS(decode(encode(from_server), with_servers), frame_error);
}

TEST_CASE("memory for a payload is taken after its header was found good, and comes from the pool") {
  const models::buffer_pool pool;
  frame_reader reader{limits, pool};
  const auto piece = some_part(0, 1024);
  const auto header = encode(header_of(1, piece));
  std::memcpy(reader.room().data(), header.data(), header.size());
  CHECK(reader.advance(header.size()) == found::header);
  CHECK(pool.allocated() == 0);
  CHECK(reader.room().size() == 4096);
  CHECK(pool.allocated() == 1);
}

TEST_CASE("what does not begin like a frame is refused with the first byte that differs") {
  const models::buffer_pool pool;
  const auto first_refused = [&](std::string_view words) {
    frame_reader reader{limits, pool};
    for (std::size_t i = 0; i < words.size(); ++i) {
      reader.room()[0] = static_cast<std::byte>(words[i]);
      try {
        reader.advance(1);
      } catch (const frame_error&) {
        return i;
      }
    }
    return words.size();
  };
  CHECK(first_refused("GET / HTTP/1.1\r\n\r\n") == 0);
  CHECK(first_refused("TTRX") == 3);
  CHECK(first_refused("TTRP") == 4);
}

TEST_CASE("a payload costs the pages that it takes in memory") {
  CHECK(cost_of(4) == 4096);
  CHECK(cost_of(4096) == 4096);
  CHECK(cost_of(4100) == 8192);
}

TEST_CASE("streams of good and of mutated frames do no harm to a connection") {
  std::size_t arrived = 0, greeted = 0, refused = 0;
  constexpr unsigned streams = 2000;
  for (unsigned n = 0; n < streams; ++n) {
    CAPTURE(n);
    fuzz::engine random{n + 1};
    auto stream = fuzz::seed(random);
    for (auto times = fuzz::below(random, 4); times > 0; --times) fuzz::mutate(stream, random);
    const auto result = fuzz::drive(stream);
    arrived += result.arrived;
    greeted += result.greeted ? 1 : 0;
    refused += result.refused ? 1 : 0;
  }
  // Half of the streams follow a hello, and some others contain one, so both outcomes are covered.
  CHECK(greeted > streams / 2);
  CHECK(arrived > streams / 4);
  CHECK(refused > streams / 4);
  CHECK(refused < streams);
}

TEST_CASE("states and copies are cut into frames and put together again, each by its own receiver only") {
  state_dict files;
  files.put("large", at::arange(200'000, at::kFloat));
  files.put_text("small", "text");
  auto accepts = limits;
  accepts.keeps_copies = true;
  for (const auto& pieces : {cut(rank_id{1}, 7, files), cut_copy(20, files)}) {
    const auto is_copy = pieces.front().kind == frame_kind::copy;
    CHECK(pieces.size() == 4);
    frame_reader reader{accepts, {}};
    state_assembler together;
    std::optional<whole_state> whole;
    for (const auto& piece : pieces) {
      CHECK_FALSE(whole);
      const auto header = sealed(header_of(piece), piece.bytes);
      const auto frames = read(reader, bytes_of(header, piece.bytes), [] { return std::size_t{100'000}; });
      REQUIRE(frames.size() == 1);
      CHECK(frames[0].header.kind == (is_copy ? frame_kind::copy : frame_kind::state));
      whole = together.add(frames[0].as_state_piece());
      const auto refused = refusal(encode(header));  // a node that keeps no copies
      CHECK(refused == (is_copy ? "received a frame with a checkpoint, of which this node keeps no copy" : ""));
    }
    REQUIRE(whole);
    CHECK(whole->number == (is_copy ? 20 : 7));
    CHECK(whole->state.text("small") == "text");
    CHECK(whole->state.tensor("large").equal(files.tensor("large")));
    CHECK_THROWS_AS(together.add(pieces.back()), frame_error);
  }
  auto header = header_of(cut_copy(20, files).front());
  header.total = accepts.largest_copy() + 1;
  CHECK_THROWS_WITH_AS(decode(encode(header), accepts), doctest::Contains("received a frame with a checkpoint of "),
                       frame_error);
  header = header_of(cut_copy(20, files).front());
  for (const auto offset : {std::size_t{12}, std::size_t{24}})
    CHECK_THROWS_WITH_AS(decode(with(encode(header), offset, std::uint32_t{1}), accepts),
                         "received a frame with a checkpoint of a worker", frame_error);
}

}  // namespace transport_frame_test
