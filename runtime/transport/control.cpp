#include "troupe/runtime/transport/control.hpp"

#include "troupe/actors/wire/inspect.hpp"
#include "troupe/runtime/support/ending_signals.hpp"
#include "troupe/runtime/transport/bytes.hpp"

#include <type_traits>
#include <utility>

namespace troupe::control {

namespace {

using transport::frame_error;

/// Reads only the name of a type.
struct name_reader {
  using result_type = void;
  const char* name{""};
  template <class... Fields>
  void operator()(caf::meta::type_name_t type, const Fields&...) {
    name = type.value;
  }
};

template <std::size_t... Index>
message made_of(std::size_t number, std::index_sequence<Index...>) {
  message result;
  (void)((number == Index && (result.emplace<Index>(), true)) || ...);
  return result;
}

[[noreturn]] void refuse(const message& what, const std::string& why) {
  throw frame_error("received the control message " + name_of(what) + " " + why);
}

/// Returns the rank that a message is about, or null.
template <class Message>
const rank_id* rank_in(const Message& content) {
  if constexpr (requires { content.rank; }) {
    return &content.rank;
  } else {
    return nullptr;
  }
}

/// Returns the node that a message names, or null.
template <class Message>
const std::uint32_t* node_in(const Message& content) {
  if constexpr (requires { content.lost; }) {
    return &content.lost;
  } else if constexpr (std::is_same_v<Message, link_lost>) {
    return &content.node;
  } else {
    return nullptr;
  }
}

/// Returns the signal that a message reports, or null.
template <class Message>
const std::int32_t* signal_in(const Message& content) {
  if constexpr (std::is_same_v<Message, interrupted>)
    return &content.signal;
  else
    return nullptr;
}

/// The messages before `welcome` go to the first node; the others come from it.
const std::size_t first_from_first_node = message{welcome{}}.index();

}  // namespace

std::string name_of(const message& what) {
  name_reader name;
  std::visit([&name](const auto& content) { inspect(name, const_cast<std::decay_t<decltype(content)>&>(content)); },
             what);
  return name.name;
}

std::vector<std::byte> encode(const message& what) {
  transport::byte_writer bytes;
  bytes.put(static_cast<std::uint8_t>(what.index()));
  std::visit([&bytes](const auto& content) { bytes.put(content); }, what);
  return bytes.take();
}

message decode(std::span<const std::byte> bytes) {
  transport::byte_reader from{bytes};
  std::uint8_t number = 0;
  from.get(number);
  constexpr auto kinds = std::variant_size_v<message>;
  if (number >= kinds) throw frame_error("received a control message of an unknown kind");
  auto result = made_of(number, std::make_index_sequence<kinds>{});
  std::visit([&from](auto& content) { from.get(content); }, result);
  from.finish();
  return result;
}

void check_sender(const transport::frame_header& header, const std::vector<node_ranks>& nodes, std::uint32_t from) {
  const auto sender = static_cast<std::uint32_t>(header.origin.sender);
  const auto is_its_own = sender - nodes.at(from).first < nodes.at(from).count;
  const auto is_server = from == 0 && sender >= nodes.back().first + nodes.back().count;
  const auto is_state = header.kind == transport::frame_kind::state || header.kind == transport::frame_kind::copy;
  if (!is_its_own && !is_server && !(is_state && from == 0))
    throw frame_error("received a frame with a sender that is not on the node that it comes from");
}

void check(const message& what, const std::vector<node_ranks>& nodes, std::uint32_t from, std::uint32_t to) {
  const auto to_first = what.index() < first_from_first_node;
  if (to_first ? to != 0 || from == 0 : from != 0 || to == 0) refuse(what, "from a node that may not send it");
  const auto& ranks = nodes.at(to_first ? from : to);
  std::visit(
      [&](const auto& content) {
        if (const auto* rank = rank_in(content); rank && static_cast<std::uint32_t>(*rank) - ranks.first >= ranks.count)
          refuse(what, "about a rank of another node");
        if (const auto* node = node_in(content); node && *node >= nodes.size())
          refuse(what, "about a node that does not exist");
        if (const int* signal = signal_in(content); signal && !ends_run(*signal))
          refuse(what, "with a signal that does not end a run");
      },
      what);
}

}  // namespace troupe::control
