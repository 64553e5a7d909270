// Actors that stand for those of another node: they have the same interface, and hand what they are told to the tensor
// plane. What they stand for hears it in the same order.
#pragma once

#include "troupe/actors/coordinator.hpp"
#include "troupe/actors/port.hpp"
#include "troupe/runtime/transport/tensor_plane.hpp"

#include <cstdint>
#include <memory>

namespace troupe::transport {

/// Stands for the port of `rank` on `node`. Which exchange it is of, the parts say themselves.
peer_port spawn_port_proxy(caf::actor_system& system, std::shared_ptr<tensor_plane> plane, std::uint32_t node,
                           std::uint32_t rank);

/// Stands for the coordinator on `node`.
snapshot_sink spawn_coordinator_proxy(caf::actor_system& system, std::shared_ptr<tensor_plane> plane,
                                      std::uint32_t node);

}  // namespace troupe::transport
