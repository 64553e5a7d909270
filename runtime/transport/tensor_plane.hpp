// The tensor plane of a node: one TCP connection to each other node, served by one thread. It knows frames and nodes,
// not actors; a remote port or coordinator is a proxy actor in front of it (proxy.hpp).
//
// A stranger who connects has some seconds to say who he is in one frame of 128 bytes, and at most 64 strangers are
// listened to at a time; nothing is allocated on their word.
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
  models::buffer_pool pool;  ///< Where received tensors come from.
  /// What may be under way from a node before any of it is taken. Small: what waits in a socket is read from the cache.
  std::int64_t window_bytes{2 << 20};
  std::chrono::milliseconds timeout{60'000};  ///< For all links to be made.
  std::chrono::milliseconds patience{5'000};  ///< With a stranger who does not say who he is.
};

class tensor_plane {
 public:
  /// Called on the plane's own thread.
  struct listener {
    std::function<void()> linked;  ///< Every link is open.
    /// Once for a node, whose link was made or was not made in time; it is not linked again.
    std::function<void(std::uint32_t node, const std::string& why)> lost;
    std::function<void(frame&&, std::shared_ptr<const void> receipt)> arrived;
  };

  /// Binds and listens; strangers wait in the backlog until link(). Throws input_error where the address is not
  /// loopback, or taken.
  explicit tensor_plane(tensor_plane_options options);
  /// Closes all connections, with what has not been sent, and joins the thread: not from a listener's call.
  ~tensor_plane();
  tensor_plane(const tensor_plane&) = delete;
  tensor_plane& operator=(const tensor_plane&) = delete;

  /// Makes the links of node `me`: dials the nodes before it, waits for those behind it. Once.
  void link(const session_id& session, std::uint32_t me, std::vector<topology::endpoint> nodes, listener listener);

  /// Sends to a linked node; nothing where its link is lost. Any thread; never blocks.
  void send(std::uint32_t node, std::uint32_t to, const part& piece);
  void send(std::uint32_t node, const snapshot& result);

 private:
  class links;
  std::unique_ptr<links> links_;
};

}  // namespace troupe::transport
