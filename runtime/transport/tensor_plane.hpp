// The tensor plane of a node: one TCP connection to each other node, served by one thread. It knows frames and nodes,
// not actors; a remote port or coordinator is a proxy actor in front of it (proxy.hpp).
//
// A stranger who connects is given five seconds to say who he is in one frame of 128 bytes, and at most so many
// strangers are listened to at a time; nothing is allocated on their word.
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
  models::buffer_pool pool;                   ///< Where received tensors come from.
  std::chrono::milliseconds timeout{60'000};  ///< For all links to be made.
};

class tensor_plane {
 public:
  /// Called on the plane's own thread.
  struct listener {
    std::function<void()> linked;  ///< Every link is open.
    std::function<void(std::uint32_t node, const std::string& why)> lost;
    std::function<void(frame&&, std::shared_ptr<const void> receipt)> arrived;
  };

  /// Binds and listens; strangers wait in the backlog until link(). Throws input_error where the address is not
  /// loopback, or taken.
  explicit tensor_plane(tensor_plane_options options);
  /// Closes all connections and joins the thread.
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
