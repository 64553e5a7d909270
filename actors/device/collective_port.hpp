// A port whose exchange is one call of a device's own collective (NCCL): tensors go in and come out on the device, and
// no part travels between ports. To its worker it is a port as any other.
#pragma once

#include "troupe/actors/device/collective.hpp"
#include "troupe/actors/port.hpp"
#include "troupe/actors/support/lane.hpp"

#include <caf/fwd.hpp>

#include <memory>
#include <string>

namespace troupe::device {

/// Spawns it: `engine`, not joined yet, is used on `where`, a lane of its own. `id`: the communicator's, of all
/// members.
///
/// DEVICE-1: calls are made in the order of the plan's keys, (step, part); a bucket that comes early is held back. All
/// members make them in that order, or they would wait for each other for ever. Between exchanges the loop's order
/// holds: a worker awaits one before it begins the next.
/// DEVICE-2: nothing waits longer than options.timeout: the actor keeps the deadline, aborts the communicator from
/// outside and ends with errc::timed_out; where a member's node is lost with errc::peer_lost.
port_actor spawn_collective_port(caf::actor_system& system, port_options options, std::shared_ptr<collective> engine,
                                 std::string id, std::unique_ptr<lane> where);

}  // namespace troupe::device
