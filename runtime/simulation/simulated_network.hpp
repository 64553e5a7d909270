// A network in virtual time, with the links of all nodes of a run. What a node sends is delivered later, one message at
// a time, when the owner of the network calls deliver(). Bytes and checks are those of a real connection: control
// messages and the headers of tensors are encoded and decoded, and tensors are copied.
//
// It models TCP connections as the protocol sees them: each keeps the order of its messages; the connections of a
// killed node close after some of what it had sent has been delivered; a frozen node and a cut link are noticed after
// `silence`. The network is used by one thread.
#pragma once

#include "troupe/data/random/random.hpp"
#include "troupe/runtime/transport/links.hpp"

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace troupe::transport {

struct simulated_network_options {
  std::vector<control::node_ranks> ranks;         ///< By node index.
  std::vector<frame_limits> limits;               ///< By node index.
  std::int64_t window{2 << 20};                   ///< See connection_options::window.
  std::chrono::microseconds latency{100};         ///< Each message takes a random time up to this one.
  std::chrono::microseconds timeout{60'000'000};  ///< Time in which all tensor links must be established.
  std::chrono::microseconds silence{5'000'000};   ///< See connection_options::silence.
  std::uint64_t seed{0};
};

class simulated_network {
 public:
  using time = std::chrono::nanoseconds;  ///< Virtual time since the simulation began.

  explicit simulated_network(simulated_network_options options);

  /// Returns the links of a node. They must not outlive the network.
  links links_of(std::uint32_t node);

  /// Advances time to `now`, as deliver() and deliverable() do.
  void reach(time now) { now_ = now; }

  /// Returns the number of messages that may be delivered at `now`.
  std::size_t deliverable(time now);

  /// Delivers one of the messages that deliverable() has counted, by its index.
  void deliver(std::size_t which, time now);

  /// Returns when the next message may be delivered, or nothing if none will be.
  std::optional<time> next_due() const;

  /// Returns the number of messages delivered so far, without the events of the network itself.
  std::uint64_t delivered() const { return delivered_; }

  // Faults. ----------------------------------------------------------------------------------------------------------

  /// Kills a node: its connections close, and it no longer sends or receives anything.
  void kill(std::uint32_t node);

  /// Pauses a node until thaw(): it receives nothing.
  void freeze(std::uint32_t node);
  void thaw(std::uint32_t node);

  /// Blocks everything between two nodes until heal(), without notifying either of them.
  void cut(std::uint32_t a, std::uint32_t b);
  void heal(std::uint32_t a, std::uint32_t b);

  /// Resets the tensor connection or the control connection between two nodes.
  void reset(std::uint32_t a, std::uint32_t b, plane where);

  /// Delays every message between two nodes by this time.
  void slow(std::uint32_t a, std::uint32_t b, time by);

 private:
  class node_links;
  friend class node_links;
  using pair = std::pair<std::uint32_t, std::uint32_t>;

  /// Something that happens at a node at some time.
  struct event {
    time due{0};
    std::int64_t cost{0};  ///< Credit that the event needs.
    bool is_message{false};
    std::function<void()> act;
  };

  /// One direction of a connection. Its events happen in order.
  struct channel {
    std::deque<event> waiting;
    std::shared_ptr<std::int64_t> outstanding = std::make_shared<std::int64_t>(0);  ///< Cost of receipts that are held.
    time last_due{0};
  };
  struct address {
    plane where{plane::tensors};
    std::uint32_t from{0}, to{0};
    auto operator<=>(const address&) const = default;
  };
  enum class state : std::uint8_t { closed, visiting, open, lost };

  void put(const address& where, event what);
  void later(std::uint32_t node, time delay, std::function<void()> act);
  void send_control(std::uint32_t from, std::uint32_t to, const control::message& what);
  void send_frame(std::uint32_t from, std::uint32_t to, const frame_header& header, const at::Tensor& values);
  void hear_control(std::uint32_t from, std::uint32_t to, const std::vector<std::byte>& bytes);
  void dial_first(std::uint32_t node);
  void dial_peer(std::uint32_t node, std::uint32_t other);
  void lose(plane where, std::uint32_t at, std::uint32_t other, const std::string& why);
  void give_up(std::uint32_t at, std::uint32_t other);
  void close_later(plane where, std::uint32_t at, std::uint32_t other);
  void refuse_frame(plane where, std::uint32_t at, std::uint32_t other, const std::string& why);
  void leave(std::uint32_t node, bool suddenly);
  void listen_to(std::uint32_t b, std::uint32_t a);
  void notice_silence(std::uint32_t a, std::uint32_t b);
  bool passes(std::uint32_t a, std::uint32_t b) const;
  bool can_happen(const address& where, const channel& of, time now) const;
  state& state_of(plane where, std::uint32_t at, std::uint32_t other) { return states_[{where, at, other}]; }

  simulated_network_options options_;
  data::random_stream random_;
  time now_{0};
  std::vector<std::weak_ptr<node_links>> nodes_;
  std::vector<bool> gone_, frozen_;
  std::map<address, channel> channels_;
  std::set<address> busy_;                              ///< The channels on which something may be waiting.
  std::map<address, state> states_;                     ///< State of each connection, as `from` sees it.
  std::vector<std::pair<std::uint32_t, event>> alone_;  ///< Events of a node that belong to no connection.
  std::set<pair> cut_;
  std::map<pair, time> silent_since_;  ///< By the node that receives nothing and the node that is silent.
  std::map<pair, time> slowed_;
  std::vector<address> ready_;  ///< Channels found by the last deliverable(); counted before `ready_alone_`.
  std::vector<std::size_t> ready_alone_;
  std::uint64_t delivered_{0};
};

}  // namespace troupe::transport
