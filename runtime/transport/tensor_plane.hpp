// The tensor plane of a node: one TCP connection to each other node, served by one thread. It handles frames and nodes,
// not actors; proxy actors (proxy.hpp) stand for the ports and the coordinator of other nodes and send through it.
//
// An incoming connection must identify itself within a few seconds, in one frame of 128 bytes. At most 64 connections
// may be unidentified at a time, and nothing is allocated on the basis of what they send.
#pragma once

#include "troupe/runtime/topology/endpoint.hpp"
#include "troupe/runtime/transport/frame.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace troupe::transport {

struct tensor_plane_options {
  topology::endpoint listen;  ///< Loopback only, until connections are encrypted.
  frame_limits limits;
  models::buffer_pool pool;  ///< Pool from which received tensors are taken.
  /// Bytes that another node may send before this node takes any of them. Small, so that waiting data is still in the
  /// cache when it is read.
  std::int64_t window_bytes{2 << 20};
  std::chrono::milliseconds timeout{60'000};  ///< Time in which all links must be established.
  std::chrono::milliseconds patience{5'000};  ///< Time in which an incoming connection must identify itself.
};

class tensor_plane {
 public:
  /// Callbacks, called on the plane's own thread.
  struct listener {
    std::function<void()> linked;  ///< Called when all links are open.
    /// Called once per node when its link fails or is not established in time. The node is not linked again.
    std::function<void(std::uint32_t node, const std::string& why)> lost;
    /// Called with each part or snapshot. Releasing the receipt lets the sender send more.
    std::function<void(frame&&, std::shared_ptr<const void> receipt)> arrived;
  };

  /// Binds and listens; connections wait in the backlog until link(). Throws input_error if the address is not a
  /// loopback address or is in use.
  explicit tensor_plane(tensor_plane_options options);
  /// Closes all connections, discards unsent frames and joins the thread. Must not run in a callback of the listener.
  ~tensor_plane();
  tensor_plane(const tensor_plane&) = delete;
  tensor_plane& operator=(const tensor_plane&) = delete;

  /// Establishes the links of node `me`: connects to the nodes before it and accepts the nodes after it. Call it once.
  void link(const session_id& session, std::uint32_t me, std::vector<topology::endpoint> nodes, listener listener);

  /// Sends to a linked node; does nothing if its link is lost. May be called on any thread and never blocks.
  void send(std::uint32_t node, std::uint32_t to, const part& piece);
  void send(std::uint32_t node, const snapshot& result);
  /// Copies of checkpoints are sent only while nothing else is.
  void send(std::uint32_t node, const state_piece& piece);

 private:
  class links;
  std::unique_ptr<links> links_;
};

}  // namespace troupe::transport
