// Spawns what runs an exchange on a node: ports, the keeper of a shared memory, or the GPUs' own library. See carrier.
#pragma once

#include "troupe/actors/port/port.hpp"
#include "troupe/actors/wire/lane.hpp"
#include "troupe/algorithms/training/shared_memory.hpp"
#include "troupe/runtime/launch/launcher.hpp"
#include "troupe/runtime/plan/plan.hpp"

#include <caf/actor.hpp>
#include <caf/fwd.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace troupe {

/// One node's part of an exchange.
struct spawned_exchange {
  std::map<std::uint32_t, port_actor> ports;     ///< By id of the worker or server.
  std::map<std::uint32_t, peer_port> entrances;  ///< See crew::entrances.
  std::shared_ptr<shared_memory> memory{};       ///< Null unless the exchange runs in shared memory.
  std::shared_ptr<lock_order> order{};           ///< Order in which the memory is locked in a replay, or null.
  holder_actor keeper{};                         ///< See crew::keepers.
};

/// Spawns and wires what runs the exchange with this index on this node, and adds all actors to `spawned`.
spawned_exchange spawn_exchange(caf::actor_system& system, const plan& plan, std::uint32_t place, lane_factory& lanes,
                                const launch_options& options, std::vector<labelled_actor>& spawned);

}  // namespace troupe
