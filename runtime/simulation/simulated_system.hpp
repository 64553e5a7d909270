// The actor system of a simulation.
#pragma once

#include <caf/actor_system_config.hpp>
#include <caf/atom.hpp>

namespace troupe {

/// Settings of an actor system whose actors run one event at a time, when told to.
struct simulated_system_config : caf::actor_system_config {
  simulated_system_config() { set("scheduler.policy", caf::atom("testing")); }
};

}  // namespace troupe
