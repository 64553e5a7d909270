#include "troupe/net/basp/gate.hpp"

#include "troupe/files/text.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

namespace troupe::basp {

namespace {

/// The first byte of a header: what the message is.
enum operation : std::uint8_t {
  server_handshake,  ///< From the side that has published an actor. Its payload begins with the id of its node.
  client_handshake,  ///< From the side that has dialled. Its payload is the id of its node.
  direct_message,    ///< For an actor of this node.
  routed_message,    ///< For an actor of another node, or from one.
  monitor_message,   ///< The sender has a proxy of an actor of this node. Payload: ids of both nodes.
  down_message,      ///< An actor of the sender has ended. Payload: ids of both nodes, and an error.
  heartbeat,
};

/// The receiver of a direct message is given by its name instead of its id.
constexpr std::uint8_t named_receiver = 1;
/// The sender of a client handshake asks for this connection if there are several between two nodes.
constexpr std::uint8_t select_connection = 2;

/// An error is a code, a category and a message with details; this is one without details.
constexpr std::size_t code_and_category_bytes = 1 + 8;
constexpr std::string_view no_details{"\0\0\3@<>", 6};

/// What precedes the name of a type in a message of one value.
constexpr std::string_view before_type = "@<>+";

template <class Number>
Number big_endian(const std::byte* at) {
  Number number = 0;
  for (std::size_t i = 0; i < sizeof(Number); ++i)
    number = static_cast<Number>(number << 8 | std::to_integer<Number>(at[i]));
  return number;
}

void put_big_endian(std::byte* at, std::uint32_t number) {
  for (int i = 3; i >= 0; --i, number >>= 8) at[i] = static_cast<std::byte>(number & 0xff);
}

[[noreturn]] void refuse(const std::string& what) {
  throw gate_error("it sent " + what);
}

/// Reads the beginning of a message.
class message_reader {
 public:
  explicit message_reader(std::span<const std::byte> bytes) : left_(bytes) {}

  std::uint8_t byte() {
    if (left_.empty()) refuse("a message that ends early");
    const auto first = std::to_integer<std::uint8_t>(left_.front());
    left_ = left_.subspan(1);
    return first;
  }

  /// Reads a length, of which each byte has 7 bits.
  std::uint32_t length() {
    std::uint64_t number = 0;
    for (int shift = 0; shift < 32; shift += 7) {
      const auto next = byte();
      number |= std::uint64_t{next & 0x7fU} << shift;
      if ((next & 0x80) == 0) return static_cast<std::uint32_t>(std::min<std::uint64_t>(number, UINT32_MAX));
    }
    refuse("a message with an invalid length");
  }

  std::string_view text() {
    const auto size = length();
    if (size > left_.size()) refuse("a message that ends early");
    const std::string_view found{reinterpret_cast<const char*>(left_.data()), size};
    left_ = left_.subspan(size);
    return found;
  }

 private:
  std::span<const std::byte> left_;
};

}  // namespace

void gate::take(std::span<const std::byte> bytes, std::vector<std::byte>& passed) {
  while (!bytes.empty() || filled_ == header_bytes) {
    if (filled_ < header_bytes) {
      const auto count = std::min(header_bytes - filled_, bytes.size());
      std::copy_n(bytes.begin(), count, header_.begin() + static_cast<std::ptrdiff_t>(filled_));
      filled_ += count;
      bytes = bytes.subspan(count);
      if (filled_ < header_bytes) return;
      ++headers_;
    }
    const auto what = read_header();
    if (what.payload_bytes > options_.most_payload)
      refuse("a message of " + std::to_string(what.payload_bytes) + " bytes; expected at most " +
             std::to_string(options_.most_payload));
    const auto count = std::min<std::size_t>(what.payload_bytes - payload_.size(), bytes.size());
    payload_.insert(payload_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count));
    bytes = bytes.subspan(count);
    if (payload_.size() < what.payload_bytes) return;
    if (judge(what) == verdict::pass) {
      put_big_endian(header_.data() + 4, static_cast<std::uint32_t>(payload_.size()));  // a payload may be shortened
      passed.insert(passed.end(), header_.begin(), header_.end());
      passed.insert(passed.end(), payload_.begin(), payload_.end());
    }
    filled_ = 0;
    payload_.clear();
    constexpr std::size_t kept = 4096;
    if (payload_.capacity() > kept) payload_.shrink_to_fit();
  }
}

gate::header gate::read_header() const {
  return {.operation = std::to_integer<std::uint8_t>(header_[0]),
          .flags = std::to_integer<std::uint8_t>(header_[3]),
          .payload_bytes = big_endian<std::uint32_t>(header_.data() + 4),
          .target = big_endian<std::uint64_t>(header_.data() + 24)};
}

gate::verdict gate::judge(const header& what) {
  if (!options_.accepts) return verdict::pass;
  if (what.operation != client_handshake && !other_) refuse("something before its handshake");
  switch (what.operation) {
    case client_handshake:
      judge_handshake(what);
      return verdict::pass;
    case direct_message:
      return judge_message(what);
    case monitor_message:
      return judge_monitor(what);
    case down_message:
      judge_down(what);
      return verdict::pass;
    case heartbeat:
      if (what.payload_bytes != 0) refuse("a heartbeat with a payload");
      return verdict::pass;
    default:
      refuse("a message of kind " + std::to_string(what.operation) + ", which is not expected from it");
  }
}

/// A client sends its handshake twice; the second time, it selects the connection.
void gate::judge_handshake(const header& what) {
  if (what.payload_bytes != node_bytes || (what.flags & ~select_connection) != 0) refuse("an invalid handshake");
  node_text node{};
  std::copy_n(payload_.begin(), node_bytes, node.begin());
  if (std::memcmp(node.data(), options_.own_node.data(), sizeof(std::uint64_t)) != 0)
    refuse("a handshake with an unknown kind of CAF node");
  if (node == options_.own_node || (!other_ && options_.is_new && !options_.is_new(node)))
    throw gate_error("it has the CAF node id of another process of the run, as copies of one container may have");
  if (other_ && *other_ != node) refuse("a handshake of another CAF node than before");
  other_ = node;
}

gate::verdict gate::judge_message(const header& what) {
  // CAF asks every node that it meets for its server of types, by name; the actors behind the gate have ids.
  if (what.flags == named_receiver || !options_.actors.contains(what.target)) return verdict::drop;
  if (what.flags != 0) refuse("a message with unknown flags");
  message_reader message{payload_};
  if (message.length() != 0) refuse("a message that is passed on from another actor");
  if (message.byte() != 0 || message.byte() != 0) refuse("a message of unknown form");
  const auto types = message.text();
  if (!types.starts_with(before_type) || !options_.messages.contains(std::string(types.substr(before_type.size()))))
    refuse("a message of type " + text::printable(types.substr(std::min(before_type.size(), types.size()))) +
           ", which is not expected from it");
  return verdict::pass;
}

gate::verdict gate::judge_monitor(const header& what) {
  if (what.payload_bytes != 2 * node_bytes || !std::equal(other_->begin(), other_->end(), payload_.begin()) ||
      !std::equal(options_.own_node.begin(), options_.own_node.end(), payload_.begin() + node_bytes))
    refuse("a request to monitor for another node");
  return options_.actors.contains(what.target) ? verdict::pass : verdict::drop;
}

/// Removes the details of the error, which may have any type.
void gate::judge_down(const header& what) {
  if (what.payload_bytes < 2 * node_bytes + code_and_category_bytes ||
      !std::equal(other_->begin(), other_->end(), payload_.begin()) ||
      !std::equal(options_.own_node.begin(), options_.own_node.end(), payload_.begin() + node_bytes))
    refuse("the end of an actor of another node");
  payload_.resize(2 * node_bytes + code_and_category_bytes);
  const auto details = std::as_bytes(std::span{no_details});
  payload_.insert(payload_.end(), details.begin(), details.end());
}

}  // namespace troupe::basp
