// Emulated links as actors between ports: each part is delayed until it would have arrived over the network that the
// topology file describes. The links use the clock of the actor system, so that the same actors run in real and in
// virtual time.
#pragma once

#include "troupe/actors/port/port.hpp"
#include "troupe/runtime/emulation/network.hpp"

#include <caf/fwd.hpp>

#include <cstdint>
#include <map>
#include <memory>

namespace troupe::emulation {

/// How parts are sent to a peer, and what counts them.
struct departure {
  sender by;
  std::shared_ptr<edge_meter> meter{};     ///< Null if the parts are not counted.
  std::shared_ptr<edge_meter> answered{};  ///< Servers only: meter of the parts that these answer; or null.
};

/// The links on which a port sends, by the index of the peer in the exchange.
using senders = std::map<rank_id, departure>;

/// Returns the port_options::departure of a port that sends on these links, or an empty function if there are none.
decltype(port_options::departure) departures_over(senders links);

/// Routes to a port, by the id of the sender.
using routes = std::map<std::uint32_t, route>;

/// Spawns the receiving half of all links to a port, on the node of the receiver. It passes a part on to the port when
/// its last byte would have arrived.
peer_port spawn_receiving_half(caf::actor_system& system, routes from, peer_port port);

}  // namespace troupe::emulation
