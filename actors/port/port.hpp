// A worker's end of an exchange: the actor that runs a member. It checks and delivers messages and enforces the
// deadline. It does not depend on the algorithm, whose state (buffers, folds, anchors) is in the member. A remote port
// is a local actor with the interface peer_port.
#pragma once

#include "troupe/actors/replay/deliveries.hpp"
#include "troupe/actors/wire/type_ids.hpp"
#include "troupe/algorithms/exchange/around/wrapper.hpp"
#include "troupe/algorithms/exchange/member_options.hpp"
#include "troupe/algorithms/messages/messages.hpp"
#include "troupe/algorithms/support/trace.hpp"

#include <caf/fwd.hpp>
#include <caf/typed_actor.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

/// Messages between ports, in any order.
using peer_port = caf::typed_actor<caf::reacts_to<part_atom, part>>;

/// Messages from a worker and the launcher to a port.
/// part:   a contribution of its own worker to a step (whole or in buckets), or a part sent by a peer.
/// await:  answered when this step's exchange is complete; with port_options::answers_buckets, when the bucket
///         key::part is complete. Errors: errc::timed_out (names the missing ranks), errc::mismatch, errc::stale,
///         errc::peer_lost.
/// wire:   sent once before the first step; contains the ports of the peers, in the order of port_options::peers.
/// result: for servers only; answered with what the server holds once all workers have completed this many steps.
/// state:   answered with what the following steps depend on; only while no step is under way.
/// restore: rebuilds the member from that state, before the first part; errc::mismatch if it does not fit.
/// pause:   processes no further part until `reform`; answered with how far the exchange has progressed. Contributions
///          of its own worker and parts of the next generation are kept. Only with port_options::can_reform, for
///          exchanges without servers whose members keep nothing between steps.
/// reform:  continues the exchange with other members. The worker's contribution to the step under way is contributed
///          again unless the message contains the answer to that step. Parts of earlier generations are ignored from
///          then on; errc::mismatch if it does not follow a `pause`.
/// lost:   the nodes of these ranks are lost. The answer states which rank is waiting for which ("exchange: rank 0 is
///         waiting for rank 2 at step 8") or is empty; if it is not empty, the port ends with errc::peer_lost.
/// tick, done: sent by the port to itself (deadline) and by its lane.
using port_actor = peer_port::extend<
    caf::replies_to<await_atom, stamp, key>::with<outcome>, caf::reacts_to<wire_atom, std::vector<peer_port>>,
    caf::replies_to<lost_atom, std::vector<rank_id>>::with<std::string>,
    caf::replies_to<result_atom, std::uint64_t>::with<holding>, caf::replies_to<state_atom>::with<state_dict>,
    caf::reacts_to<restore_atom, state_dict>, caf::replies_to<pause_atom>::with<exchange_standing>,
    caf::reacts_to<reform_atom, reformation>, caf::reacts_to<tick_atom>, caf::reacts_to<done_atom, completion>>;

/// Interface through which a server returns what it holds.
using holder_actor =
    caf::typed_actor<caf::replies_to<result_atom, std::uint64_t>::with<holding>,
                     caf::replies_to<state_atom>::with<state_dict>, caf::reacts_to<restore_atom, state_dict>>;

/// Returns the lane for a member with this largest_fold(); null if it runs in the handlers of its port.
using lane_for_fold = std::function<std::unique_ptr<lane>(std::int64_t largest_fold)>;

struct port_options {
  run_id run{};
  std::string name{"exchange"};  ///< Name of the exchange in the topology file.
  std::string actor{};           ///< See exchange_nature::actor.
  std::chrono::milliseconds timeout{60'000};
  /// The worker awaits each bucket separately (key::part is its index), in any order; the step ends with the last
  /// bucket.
  bool answers_buckets{false};
  pass_count passes{};              ///< Number of exchanges per step of the loop, if each micro-batch has one.
  encoding how{encoding::float32};  ///< Encoding of the parts between ports.
  bool can_reform{false};           ///< Whether the port keeps what it takes to re-form the exchange.
  /// Indices of the members and servers with which this one exchanges parts, ascending, itself included; empty for all.
  std::vector<rank_id> peers{};
  /// Returns how long after `now` the first byte of a part arrives at a peer; empty without emulated links. Called once
  /// for each part, in the order in which they leave.
  std::function<std::chrono::nanoseconds(rank_id to, const part& piece, std::chrono::nanoseconds now)> departure{};
  delivery_order deliveries{};  ///< Only for a server whose result depends on the order of its input.
  trace_track track{};          ///< Where sent and received parts are reported if the run is traced.
  member_options own{};         ///< Options of the member.
};

/// Spawns a port that runs the member that `make` returns.
port_actor spawn_port(caf::actor_system& system, port_options options, member_maker make,
                      const lane_for_fold& lanes = {});

}  // namespace troupe
