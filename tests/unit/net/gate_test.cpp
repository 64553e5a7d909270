// The gate in front of CAF: a conversation of an honest client passes; whatever else is sent is dropped or refused, and
// costs no more memory than has arrived.
#include "troupe/net/basp/gate.hpp"

#include "tests/support/doctest.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace net_gate_test {

using namespace troupe::basp;

namespace {

using bytes = std::vector<std::byte>;

constexpr std::uint64_t front = 7;

node_text node(char last) {
  node_text text{};
  text.fill(std::byte{1});
  text.back() = static_cast<std::byte>(last);
  return text;
}

const node_text ours = node('o'), theirs = node('t');

gate_options options() {
  return {.most_payload = 4096, .own_node = ours, .actors = {front}, .messages = {"troupe.ping"}};
}

void put(bytes& to, std::uint64_t number, int count) {
  for (int i = count - 1; i >= 0; --i) to.push_back(static_cast<std::byte>(number >> (8 * i)));
}
void put(bytes& to, std::string_view text) {
  for (const char c : text) to.push_back(static_cast<std::byte>(c));
}
void put(bytes& to, const node_text& id) {
  to.insert(to.end(), id.begin(), id.end());
}

/// A message with a header.
struct basp_message {
  std::uint8_t operation{2}, flags{0};
  std::uint64_t target{front};
  bytes payload{};
  std::optional<std::uint32_t> claims{};

  bytes whole() const {
    bytes all;
    put(all, operation, 1);
    put(all, 0, 2);
    put(all, flags, 1);
    put(all, claims.value_or(static_cast<std::uint32_t>(payload.size())), 4);
    put(all, 0, 8);
    put(all, 3, 8);
    put(all, target, 8);
    all.insert(all.end(), payload.begin(), payload.end());
    return all;
  }
};

bytes handshake(const node_text& from = theirs, std::uint8_t flags = 0) {
  basp_message message{.operation = 1, .flags = flags, .target = 0};
  put(message.payload, from);
  return message.whole();
}

bytes typed(std::string_view types, std::uint64_t target = front, std::uint8_t flags = 0, int stages = 0) {
  basp_message message{.operation = 2, .flags = flags, .target = target};
  put(message.payload, static_cast<std::uint64_t>(stages), 1);
  put(message.payload, 0, 2);
  put(message.payload, types.size(), 1);
  put(message.payload, types);
  put(message.payload, 41, 8);
  return message.whole();
}

bytes between_nodes(std::uint8_t operation, std::uint64_t target, const node_text& from = theirs,
                    const node_text& to = ours, std::string_view rest = "") {
  basp_message message{.operation = operation, .target = target};
  put(message.payload, from);
  put(message.payload, to);
  put(message.payload, rest);
  return message.whole();
}

bytes joined(const std::vector<bytes>& parts) {
  bytes all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

/// Returns what passes, or the reason why nothing more does.
struct outcome {
  bytes passed;
  std::string refused;
};

outcome taken(const bytes& sent, std::size_t piece = SIZE_MAX, gate_options how = options()) {
  gate to{std::move(how)};
  outcome result;
  try {
    for (std::size_t at = 0; at < sent.size(); at += std::min(piece, sent.size() - at))
      to.take(std::span{sent}.subspan(at, std::min(piece, sent.size() - at)), result.passed);
  } catch (const gate_error& problem) {
    result.refused = problem.what();
  }
  return result;
}

bytes heartbeat() {
  return basp_message{.operation = 6, .target = 0}.whole();
}

bytes honest() {
  return joined({handshake(), handshake(theirs, 2), heartbeat(), typed("@<>+troupe.ping"), between_nodes(4, front),
                 typed("@<>+troupe.ping")});
}

}  // namespace

TEST_CASE("what an honest client sends passes as it is, in pieces of any size") {
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, std::size_t{33}, SIZE_MAX}) {
    const auto result = taken(honest(), piece);
    CHECK(result.refused.empty());
    CHECK((result.passed == honest()));
  }
}

TEST_CASE("what CAF sends to every node by itself is dropped, and so are messages for other actors") {
  for (const auto& extra :
       {typed("@<>+@atom+@atom+@str", 99, 1), typed("@<>+troupe.ping", front + 1), between_nodes(4, front + 1)}) {
    const auto result = taken(joined({handshake(), extra, heartbeat()}));
    CHECK(result.refused.empty());
    CHECK((result.passed == joined({handshake(), heartbeat()})));
  }
}

TEST_CASE("the details of an error are removed, because they may have any type") {
  const std::string code_and_category(9, '\1');
  const auto sent = between_nodes(5, 0, theirs, ours, code_and_category + std::string("\0\0\x0c@<>+@bytebuf\xff", 17));
  const auto expected = between_nodes(5, 0, theirs, ours, code_and_category + std::string("\0\0\3@<>", 6));
  const auto result = taken(joined({handshake(), sent}));
  CHECK(result.refused.empty());
  CHECK((result.passed == joined({handshake(), expected})));
}

TEST_CASE("everything else ends the connection, and the reason says what it was") {
  struct refused {
    bytes sent;
    std::string why;
  };
  auto unknown_node = theirs;
  unknown_node[0] = std::byte{9};
  const std::vector<refused> all{
      {typed("@<>+troupe.ping"), "something before its handshake"},
      {joined({handshake(), handshake(node('x'))}), "another CAF node"},
      {handshake(ours), "the CAF node id of another process"},
      {handshake(unknown_node), "an unknown kind of CAF node"},
      {handshake(theirs, 4), "an invalid handshake"},
      {joined({handshake(), typed("@<>+@exit")}), "a message of type @exit"},
      {joined({handshake(), typed("@<>+@atom+@strong_actor_ptr")}), "a message of type @atom+@strong_actor_ptr"},
      {joined({handshake(), typed("@<>+troupe.ping+troupe.ping")}), "of type troupe.ping+troupe.ping"},
      {joined({handshake(), typed("@<>")}), "a message of type"},
      {joined({handshake(), typed("@<>+troupe.ping", front, 0, 1)}), "passed on from another actor"},
      {joined({handshake(), typed("@<>+troupe.ping", front, 8)}), "unknown flags"},
      {joined({handshake(), basp_message{.operation = 3}.whole()}), "a message of kind 3"},
      {joined({handshake(), basp_message{.operation = 0}.whole()}), "a message of kind 0"},
      {joined({handshake(), basp_message{.operation = 200}.whole()}), "a message of kind 200"},
      {joined({handshake(), between_nodes(4, front, node('x'))}), "for another node"},
      {joined({handshake(), between_nodes(5, 0, theirs, node('x'), std::string(9, '\0'))}), "of another node"},
      {joined({handshake(), basp_message{.operation = 6, .payload = bytes(1)}.whole()}), "a heartbeat with a payload"},
      {basp_message{.operation = 1, .claims = UINT32_MAX}.whole(), "a message of 4294967295 bytes"},
      {joined({handshake(), basp_message{.payload = bytes(1)}.whole()}), "a message that ends early"},
      {joined({handshake(), basp_message{.payload = bytes(8, std::byte{0xff})}.whole()}), "an invalid length"},
  };
  for (const auto& [sent, why] : all)
    for (const std::size_t piece : {std::size_t{5}, SIZE_MAX}) {
      CAPTURE(why);
      const auto result = taken(sent, piece);
      CHECK(result.refused.find(why) != std::string::npos);
    }
}

TEST_CASE("a side that has dialled limits the size of payloads, and nothing else") {
  auto how = options();
  how.accepts = false;
  const auto sent = joined({basp_message{.operation = 0, .payload = bytes(100)}.whole(), typed("@<>+@exit", 99)});
  CHECK((taken(sent, 3, how).passed == sent));
  CHECK_FALSE(taken(basp_message{.claims = 1 << 20}.whole(), 3, how).refused.empty());
}

TEST_CASE("no mutation of a conversation passes anything but messages of the interface to its actor") {
  std::mt19937 random{5};
  const auto from = honest();
  const auto any = [&](std::size_t below) { return std::uniform_int_distribution<std::size_t>{0, below - 1}(random); };
  for (int round = 0; round < 20'000; ++round) {
    auto sent = from;
    for (auto changes = 1 + any(4); changes > 0; --changes) {
      const auto at = any(sent.size());
      switch (any(4)) {
        case 0:
          sent[at] ^= static_cast<std::byte>(1 << any(8));
          break;
        case 1:
          sent[at] = static_cast<std::byte>(any(2) == 0 ? 0xff : any(256));
          break;
        case 2:
          sent.resize(at + 1);
          break;
        default:
          sent.insert(sent.begin() + static_cast<std::ptrdiff_t>(at), sent.begin(),
                      sent.begin() + static_cast<std::ptrdiff_t>(any(64)));
      }
      if (sent.empty()) sent.resize(1);
    }
    const auto result = taken(sent, 1 + any(100));
    CHECK(result.passed.size() <= sent.size() + 64);
    for (std::size_t at = 0; at < result.passed.size();) {  // what has passed is whole messages
      const auto operation = std::to_integer<int>(result.passed[at]);
      std::uint32_t length = 0;
      for (int i = 4; i < 8; ++i) length = length << 8 | std::to_integer<std::uint32_t>(result.passed[at + i]);
      const auto target = std::to_integer<std::uint64_t>(result.passed[at + 31]);
      const auto next = at + header_bytes + length;
      REQUIRE(next <= result.passed.size());
      if (operation == 2) {
        CHECK(target == front);
        const std::string_view payload{reinterpret_cast<const char*>(result.passed.data() + at + header_bytes), length};
        CHECK(payload.find("@<>+troupe.ping") != std::string_view::npos);
      }
      at = next;
    }
  }
}

}  // namespace net_gate_test
