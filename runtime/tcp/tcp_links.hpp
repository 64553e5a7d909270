// The links of a node over TCP. One port carries both planes, and one thread serves all connections. The first node
// accepts control connections; of two nodes, the one that is earlier in the plan accepts the tensor connection.
//
// An incoming connection must identify itself within a few seconds: first in the handshake of its channel
// (channel.hpp), then with a hello of 128 bytes that has the session of the run or, to join, with a hello and an
// introduction. At most 64 connections may be unidentified at a time.
#pragma once

#include "troupe/net/channels/channel.hpp"
#include "troupe/net/channels/endpoint.hpp"
#include "troupe/runtime/transport/links.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace troupe::transport {

struct guest_arrival;

struct tcp_options {
  std::uint32_t me{0};  ///< Index of this node in the plan.
  endpoint listen;
  std::vector<endpoint> addresses;  ///< Where each node can be dialled, by index.
  /// How the ends of a connection identify themselves; by default not at all.
  std::shared_ptr<const channel_factory> channels{plain_channels()};
  std::vector<control::node_ranks> ranks;            ///< By node index.
  std::vector<std::string> names{};                  ///< Names of the nodes, by index, as in their certificates.
  control_carrier control{control_carrier::frames};  ///< What carries the control messages.
  session_id session{};  ///< Random; only on the first node. The others receive it when they join.
  frame_limits limits;
  models::buffer_pool pool;  ///< Pool from which received tensors are taken.
  /// Bytes that another node may send before this node takes any of them.
  std::int64_t window_bytes{default_window};
  std::chrono::milliseconds timeout{60'000};  ///< Time in which all tensor links must be established.
  std::chrono::milliseconds silence{5'000};   ///< A link on which nothing arrives for this long is lost.
  std::chrono::milliseconds patience{5'000};  ///< Time in which an incoming connection must identify itself.
  /// Called on the thread of the links for each guest that has identified itself; see guest_arrival.hpp. Must not
  /// block. If it is empty, guests are refused.
  std::function<void(const std::shared_ptr<guest_arrival>&)> guests{};
};

/// Binds and listens; connections wait in the backlog until control_links::open(). Throws input_error if the address is
/// in use or does not belong to this host. When the last of both links ends, all connections are closed, unsent frames
/// are discarded and the thread is joined; this must not happen in a callback of a listener.
links make_tcp_links(tcp_options options);

/// Where guests reach a node that has no links.
struct guest_door {
  std::shared_ptr<const void> open;  ///< With its end, everything is closed, as for links.
  std::uint16_t port{0};
};

/// Binds, listens and accepts guests only. `warned` is called as control_links::listener::warned. Throws input_error.
guest_door open_to_guests(tcp_options options, std::function<void(const std::string&)> warned);

}  // namespace troupe::transport
