// A worker's own end of an exchange. Only ports know the algorithm; its state (buffers, folds, anchors, clocks) lives
// here. A remote port is a local actor with the interface peer_port.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include <caf/replies_to.hpp>
#include <caf/typed_actor.hpp>

#include "troupe/actors/messages.hpp"
#include "troupe/actors/support/setting.hpp"
#include "troupe/actors/type_ids.hpp"

namespace troupe {

/// What ports say to each other, in any order.
using peer_port = caf::typed_actor<caf::reacts_to<part_atom, part>>;

/// What a worker and the launcher say to a port.
/// part:  the worker's contribution of a step (whole, or as buckets), or a peer's part.
/// await: answered when this step's exchange is complete, else errc::timed_out (names the missing ranks),
///        errc::mismatch, errc::stale, errc::peer_lost.
/// wire:  once, before the first step: the ports of all members in rank order, this one among them.
using port_actor = peer_port::extend<
    caf::replies_to<await_atom, stamp, key>::with<outcome>,
    caf::reacts_to<wire_atom, std::vector<peer_port>>>;

}  // namespace troupe
