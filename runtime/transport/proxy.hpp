// Proxies for actors of another node. A proxy has the same interface and passes its messages to the links of this node;
// the other actor receives them in the same order, tensors and numbers separately.
#pragma once

#include "troupe/actors/coordinator/coordinator.hpp"
#include "troupe/actors/port/port.hpp"
#include "troupe/actors/service/recorder.hpp"
#include "troupe/runtime/transport/links.hpp"

#include <cstdint>
#include <memory>

namespace troupe::transport {

/// Spawns a proxy for the ports of `rank` on `node`. Each part names the exchange to which it belongs.
peer_port spawn_port_proxy(caf::actor_system& system, std::shared_ptr<tensor_links> links, std::uint32_t node,
                           std::uint32_t rank);

/// Coordinator and recorder, as a worker of another node sees them.
using direction_messages = control::joined<control::to_coordinator, control::to_recorder>;
using direction_actor =
    control::handler_of<direction_messages>::extend<caf::reacts_to<result_atom, snapshot>,
                                                    caf::reacts_to<state_atom, rank_id, std::uint64_t, state_dict>>;

/// Spawns a proxy for the coordinator and the recorder, which are on the first node.
direction_actor spawn_direction_proxy(caf::actor_system& system, links links);

/// Spawns a proxy for the worker with this rank on `node`.
directed_worker spawn_worker_proxy(caf::actor_system& system, links links, std::uint32_t node, rank_id rank);

}  // namespace troupe::transport
