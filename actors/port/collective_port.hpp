// A port whose exchange is one call of a device's own collective (NCCL): tensors enter and leave on the device, and no
// part travels between ports. To its worker it looks like any other port.
#pragma once

#include "troupe/actors/port/port.hpp"
#include "troupe/actors/wire/lane.hpp"
#include "troupe/algorithms/device/collective.hpp"

#include <caf/fwd.hpp>

#include <memory>
#include <string>

namespace troupe::device {

/// Spawns the port. `engine` must not have joined yet; it runs on `where`, a lane of its own. `id` identifies the
/// communicator and is the same for all members.
///
/// DEVICE-1: calls are made in the order of the plan's keys, (step, part); a bucket that arrives early is held back.
/// All members use the same order, because otherwise they would wait for each other forever. Successive exchanges
/// follow the order of the loop: a worker awaits one exchange before it begins the next.
/// DEVICE-2: nothing waits longer than options.timeout: the actor enforces the deadline, aborts the communicator from
/// outside and ends with errc::timed_out, or with errc::peer_lost if a member's node is lost.
port_actor spawn_collective_port(caf::actor_system& system, port_options options, std::shared_ptr<collective> engine,
                                 std::string id, std::unique_ptr<lane> where);

}  // namespace troupe::device
