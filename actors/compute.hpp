// The compute actor: owns a device's lane and, on it, a replica (network, optimizer state, samples). Keeps no
// parameters between messages: it is a function (snapshot, outcome, step) → (snapshot, gradient).
#pragma once

#include "troupe/actors/replica.hpp"
#include "troupe/actors/type_ids.hpp"

#include <caf/fwd.hpp>
#include <caf/typed_actor.hpp>

#include <memory>

namespace troupe {

/// advance: local work; errc::failed with the text of what LibTorch or the data set threw.
/// cancel:  an `advance` of several steps answers after the step under way.
using compute_actor = caf::typed_actor<caf::replies_to<advance_atom, advance>::with<advanced>,
                                       caf::reacts_to<cancel_atom>, caf::reacts_to<done_atom, completion>>;

compute_actor spawn_compute(caf::actor_system& system, replica_options options, std::unique_ptr<lane> where);

}  // namespace troupe
