// The compute actor owns the lane of a device and, on it, a replica (network, optimizer state, samples). It keeps no
// parameters between messages: it is a function (snapshot, outcome, step) → (snapshot, gradient). Synchronised norms
// make it query the other workers through a port in the middle of a computation.
#pragma once

#include "troupe/actors/port/port.hpp"
#include "troupe/actors/wire/type_ids.hpp"
#include "troupe/algorithms/training/replica.hpp"

#include <caf/fwd.hpp>
#include <caf/typed_actor.hpp>

#include <chrono>
#include <memory>

namespace troupe {

/// advance: does local work. If the gradient is sent in buckets, the second value is the peer_port that receives them.
/// Answers errc::failed with the message of what LibTorch or the data set threw.
/// state:   answered with what the following steps depend on besides the messages; see replica::state().
/// restore: sets that state, before the first `advance`; errc::failed with the reason if it does not fit.
/// verify:  answered with the digests of parameters in host memory, one for each tensor; see rules::digests_of().
/// cancel:  an `advance` of several steps answers after the step under way.
/// done:    sent by its lane, at the end of a job or during it.
using compute_actor =
    caf::typed_actor<caf::replies_to<advance_atom, advance, caf::strong_actor_ptr>::with<advanced>,
                     caf::replies_to<state_atom>::with<state_dict>, caf::reacts_to<restore_atom, state_dict>,
                     caf::replies_to<verify_atom, snapshot>::with<digest_list>, caf::reacts_to<cancel_atom>,
                     caf::reacts_to<done_atom, completion>>;

/// Connection through which the statistics of synchronised norms are exchanged.
struct norm_contact {
  port_actor port{};  ///< Port that answers each bucket. Empty if norms are not synchronised.
  std::chrono::milliseconds timeout{60'000};
};

/// Spawns a compute actor. `options.norms` describes what `norms` carries; its member `bring` is set here.
compute_actor spawn_compute(caf::actor_system& system, replica_options options, norm_contact norms,
                            std::unique_ptr<lane> where);

}  // namespace troupe
