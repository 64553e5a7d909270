// The actor that takes and restores the state of an actor in another program, together with that of its stand-in.
#pragma once

#include "troupe/actors/port/port.hpp"

#include <caf/fwd.hpp>

#include <chrono>
#include <memory>

namespace troupe::guests {
class seat;
}

namespace troupe {

/// Spawns it for the port of the stand-in. `timeout` is run.timeout.
holder_actor spawn_keeper(caf::actor_system& system, const port_actor& stand_in,
                          const std::shared_ptr<guests::seat>& seat, std::chrono::milliseconds timeout);

}  // namespace troupe
