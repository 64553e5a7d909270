// A worker's own end of an exchange. Only ports know the algorithm; its state (buffers, folds, anchors, clocks) lives
// here. A remote port is a local actor with the interface peer_port.
#pragma once

#include "troupe/actors/messages.hpp"
#include "troupe/actors/optimizer.hpp"
#include "troupe/actors/rules/schedule.hpp"
#include "troupe/actors/support/setting.hpp"
#include "troupe/actors/type_ids.hpp"
#include "troupe/models/buffer_pool.hpp"
#include "troupe/models/flat.hpp"

#include <caf/fwd.hpp>
#include <caf/typed_actor.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

class shared_memory;

/// What ports say to each other, in any order.
using peer_port = caf::typed_actor<caf::reacts_to<part_atom, part>>;

/// What a worker and the launcher say to a port.
/// part:  the worker's contribution of a step (whole, or as buckets), or a peer's part.
/// await: answered when this step's exchange is complete (or, under port_options::answers_buckets, that of the bucket
///        key::part), else errc::timed_out (names the missing ranks), errc::mismatch, errc::stale, errc::peer_lost.
/// wire:  once, before the first step: the ports of all members in rank order, this one among them.
/// result: of a server: what it holds when all workers have completed so many steps.
/// lost:  the nodes of these ranks are gone. Answered with who waits here for whom ("exchange: rank 0 waits for rank 2
///        at step 8"), or with nothing; where somebody does, the port ends with errc::peer_lost.
/// tick, done: from itself (deadline) and from its lane.
using port_actor = peer_port::extend<caf::replies_to<await_atom, stamp, key>::with<outcome>,
                                     caf::reacts_to<wire_atom, std::vector<peer_port>>,
                                     caf::replies_to<lost_atom, std::vector<rank_id>>::with<std::string>,
                                     caf::replies_to<result_atom, std::uint64_t>::with<holding>,
                                     caf::reacts_to<tick_atom>, caf::reacts_to<done_atom, completion>>;

/// What goes in, what comes back, and where in a loop it stands unless the file says otherwise. What answers a gradient
/// with parameters has applied it: then no `apply` follows.
struct carriage {
  slot sends{slot::gradient}, answers{slot::gradient};
  bool behind_apply{false};

  bool makes_step() const { return sends == slot::gradient && answers == slot::parameters; }
};

/// What asks a server for what it holds.
using holder_actor = caf::typed_actor<caf::replies_to<result_atom, std::uint64_t>::with<holding>>;

/// What a port needs to know of the run.
struct port_options {
  run_id run{};
  std::uint64_t seed{0};         ///< run.seed, the same for all members: see data::keyed.
  rank_id rank{};                ///< Whose port it is: an index among the members and servers.
  std::uint32_t world_size{1};   ///< n: the members of this exchange.
  std::uint32_t servers{0};      ///< Servers, at the indices from n on.
  std::vector<rank_id> ids{};    ///< What members and servers are called outside, by index, ascending; empty: the same.
  std::uint32_t place{0};        ///< Which exchange of the loop: key::place of all its parts.
  std::string name{"exchange"};  ///< As the file calls it.
  models::flat_layout layout{};
  models::buffer_pool pool{};
  setting_values settings{};  ///< Values of exchange_kind::settings, defaults filled in.
  std::chrono::milliseconds timeout{60'000};
  std::int64_t chunk_elements{0};  ///< Largest piece that pipelined routes cut the gradient into, in elements; 0: as
                                   ///< large as the route allows. Changes the time, never the bits.
  /// Pieces of the whole that are exchanged by themselves, each as soon as it is contributed: contributions may come
  /// bucket by bucket. In the order of leaving, covering the whole; empty: it is one.
  std::vector<range> buckets{};
  /// The worker awaits each bucket by itself, key::part counting them, in any order; its step is over with the last.
  bool answers_buckets{false};
  pass_count passes{};  ///< Exchanges in a step of the loop: where each micro-batch has one.
  cadence due{};
  carriage carries{};
  schedule when{};                          ///< Milestones at which a server will be asked for what it holds.
  optimizer_options optimizer{};            ///< For servers that step.
  at::Tensor initial{};                     ///< [P + B], what all workers begin with; for servers.
  std::shared_ptr<shared_memory> memory{};  ///< For the server that holds it.

  bool is_server() const { return static_cast<std::uint32_t>(rank) >= world_size; }
};

class member;

/// Spawns a port that runs `algorithm`: on `where` if given (for folds too long for a handler), else in its handlers.
port_actor spawn_port(caf::actor_system& system, port_options options, std::unique_ptr<member> algorithm,
                      std::unique_ptr<lane> where);

}  // namespace troupe
