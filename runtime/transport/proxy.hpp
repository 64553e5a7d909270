// Proxies for actors of another node. A proxy has the same interface and passes its messages to the tensor plane; the
// other actor receives them in the same order.
#pragma once

#include "troupe/actors/coordinator.hpp"
#include "troupe/actors/port.hpp"
#include "troupe/runtime/transport/tensor_plane.hpp"

#include <cstdint>
#include <memory>

namespace troupe::transport {

/// Spawns a proxy for the ports of `rank` on `node`. Each part names the exchange to which it belongs.
peer_port spawn_port_proxy(caf::actor_system& system, std::shared_ptr<tensor_plane> plane, std::uint32_t node,
                           std::uint32_t rank);

/// Spawns a proxy for the coordinator on `node`.
snapshot_sink spawn_coordinator_proxy(caf::actor_system& system, std::shared_ptr<tensor_plane> plane,
                                      std::uint32_t node);

}  // namespace troupe::transport
