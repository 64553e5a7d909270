// Emulated links as a model of queues and times, without actors and clocks: section [[link]] of the topology file. A
// message is a part between the ports of different workers or servers.
//
// The network interfaces of both ends are full duplex and FIFO. A message leaves at
//   e = max(now, free) + bytes / bandwidth,
// where `free` is the time at which the sender's interface has sent all earlier messages. Its first byte arrives at
//   e - bytes / bandwidth + latency,
// and receiving it ends at
//   max(that, free) + bytes / bandwidth, but not before e + latency (cut-through),
// where `free` and bandwidth are those of the receiver's interface. Jitter and losses add to the latency, but messages
// from one sender to one receiver never overtake each other, whichever exchanges they belong to.
#pragma once

#include "troupe/algorithms/support/trace.hpp"
#include "troupe/runtime/emulation/edges.hpp"
#include "troupe/runtime/emulation/usage.hpp"
#include "troupe/runtime/plan/link_paths.hpp"
#include "troupe/runtime/plan/plan.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace troupe::emulation {

/// Points in time and durations, from any origin.
using time = std::chrono::nanoseconds;

/// No message leaves or arrives later than this, 146 years. Two such times can be added.
inline constexpr time latest{(std::int64_t{1} << 62) - 1};

/// One direction of a network interface, or of a link of its own. Several threads may use it.
class wire {
 public:
  /// `sends`: whether it is the sending direction of `name`; see wire_usage.
  wire(std::string name, bool sends, std::shared_ptr<trace_sink> sink = nullptr);

  /// Occupies the wire with a message for `length`, starting at `earliest` or as soon afterwards as it is free. Returns
  /// the start.
  time occupy(time earliest, time length, std::int64_t bytes);

  /// Returns what the wire has carried so far.
  wire_usage usage() const;

 private:
  mutable std::mutex mutex_;
  time free_{0};
  wire_usage usage_;
  std::shared_ptr<trace_sink> sink_;
  trace_track track_;  ///< Created when it is first used.
};

/// The messages from one worker or server to another, in the order in which they leave. The ports of several exchanges
/// share it on several threads.
class message_order {
 public:
  /// Numbers the next message, sends it by calling `arrival` with its number, and returns when its first byte arrives:
  /// at the time that `arrival` returns, or later if its last byte, `length` later, would otherwise arrive before the
  /// last byte of the previous message.
  template <class Arrival>
  time next(time length, Arrival arrival) {
    const std::lock_guard lock{mutex_};
    const auto first = std::min(std::max(arrival(messages_++), last_end_ - length), latest);
    last_end_ = first + length;
    return first;
  }

 private:
  std::mutex mutex_;
  std::uint64_t messages_{0};
  time last_end_{0};
};

/// How messages travel from one worker or server to another.
struct route {
  std::uint32_t from{0}, to{0};
  std::shared_ptr<wire> sending{}, receiving{};  ///< Null where the bandwidth is not limited.
  double send_rate{std::numeric_limits<double>::infinity()}, receive_rate{send_rate};  ///< In bytes per second.
  time latency{0}, jitter{0};
  double loss{0};                          ///< Probability for each packet of 1,500 bytes.
  std::shared_ptr<message_order> order{};  ///< Null if the latency of all messages is the same.

  /// Returns whether messages take any time.
  bool is_emulated() const { return sending || receiving || latency.count() > 0 || jitter.count() > 0; }
};

/// The end of a route at which a port sends. One thread uses it at a time.
class sender {
 public:
  sender(route over, std::uint64_t seed) : over_(std::move(over)), seed_(seed) {}

  /// Sends a message; returns when its first byte arrives at the receiver.
  time send(std::int64_t bytes, time now) const;

 private:
  time delay_of(std::int64_t bytes, std::uint64_t number) const;

  route over_;
  std::uint64_t seed_;
};

/// Receives a message whose first byte arrives at `first`; returns when its last byte has arrived.
time receive(const route& over, std::int64_t bytes, time first);

/// What edges and wires have carried so far.
struct traffic {
  std::vector<edge_usage> edges{};
  std::vector<wire_usage> wires{};
};

/// Selects the links that delay messages: in a run, only those that are emulated; in a simulation, real links too.
enum class realm : std::uint8_t { run, simulation };

/// All emulated links of a plan. It also counts what travels along each edge, unless the plan has more than
/// counted_max.
class network {
 public:
  /// Number of edges up to which the traffic of each is counted.
  static constexpr std::size_t counted_max = 256;

  /// Jitter and losses are drawn from `seed`. Each wire has a track of `sink`, unless `sink` is null.
  network(const plan& plan, std::uint64_t seed, std::shared_ptr<trace_sink> sink = nullptr,
          realm where = realm::simulation);

  /// Returns whether there are links to emulate.
  bool is_emulated() const { return !links_.empty(); }

  /// Returns whether the traffic of each edge is counted.
  bool counts() const { return counts_; }

  /// Returns the route between two workers or servers, by id.
  route between(std::uint32_t from, std::uint32_t to);

  /// Returns the meter of the parts that `from` sends to `to`, or null if they are not counted. `sending`: see route.
  std::shared_ptr<edge_meter> meter_of(std::uint32_t from, std::uint32_t to,
                                       const std::shared_ptr<wire>& sending = nullptr);

  /// Returns whether this is the id of a server.
  bool is_server(std::uint32_t id) const { return id >= workers_; }

  /// Returns what has travelled so far, or nothing if it is not counted. May be called on any thread.
  traffic counted() const;

  std::uint64_t seed() const { return seed_; }

  /// Returns what each wire has carried so far, in order of their first routes. Wires that have carried nothing are
  /// left out.
  std::vector<wire_usage> usage() const;

 private:
  struct counted_edge {
    std::shared_ptr<edge_meter> meter{};
    std::string wire{};
  };

  std::shared_ptr<wire> wire_of(const wire_id& id);

  link_paths links_;
  std::uint32_t workers_{0};
  std::uint64_t seed_{0};
  bool counts_{false};  ///< Whether the traffic of each edge is counted.
  std::shared_ptr<trace_sink> sink_;
  mutable std::mutex mutex_;  ///< Guards `wires_` and `edges_`, which grow while another thread may read them.
  std::map<std::pair<std::uint32_t, std::uint32_t>, counted_edge> edges_;  ///< By the ids of both ends.
  std::vector<std::shared_ptr<wire>> wires_;                               ///< In order of their first routes.
  std::map<wire_id, std::shared_ptr<wire>> wire_by_id_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::shared_ptr<message_order>> orders_;  ///< By ids of both ends.
};

/// Returns the network of a plan, or null if there is neither a link to emulate nor an edge to count.
std::shared_ptr<network> make_network(const plan& plan, std::uint64_t seed, realm where,
                                      std::shared_ptr<trace_sink> sink = nullptr);

}  // namespace troupe::emulation
