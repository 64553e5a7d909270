// A worker's end of an exchange. Only ports know the algorithm, and its state (buffers, folds, anchors, clocks) lives
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

/// Messages between ports, in any order.
using peer_port = caf::typed_actor<caf::reacts_to<part_atom, part>>;

/// Messages from a worker and the launcher to a port.
/// part:   a contribution of the own worker to a step (whole or in buckets), or a part sent by a peer.
/// await:  answered when this step's exchange is complete; with port_options::answers_buckets, when the bucket
///         key::part is complete. Errors: errc::timed_out (names the missing ranks), errc::mismatch, errc::stale,
///         errc::peer_lost.
/// wire:   sent once before the first step; contains the ports of all members in rank order, including this one.
/// result: for servers only; answered with what the server holds once all workers have completed this many steps.
/// lost:   the nodes of these ranks are lost. The answer states who is waiting for whom ("exchange: rank 0 is waiting
///         for rank 2 at step 8") or is empty; if someone is waiting, the port ends with errc::peer_lost.
/// tick, done: sent by the port to itself (deadline) and by its lane.
using port_actor = peer_port::extend<caf::replies_to<await_atom, stamp, key>::with<outcome>,
                                     caf::reacts_to<wire_atom, std::vector<peer_port>>,
                                     caf::replies_to<lost_atom, std::vector<rank_id>>::with<std::string>,
                                     caf::replies_to<result_atom, std::uint64_t>::with<holding>,
                                     caf::reacts_to<tick_atom>, caf::reacts_to<done_atom, completion>>;

/// What an exchange sends, what it answers, and its default position in a loop. An exchange that answers a gradient
/// with parameters has already applied it, so no `apply` follows.
struct carriage {
  slot sends{slot::gradient}, answers{slot::gradient};
  bool behind_apply{false};

  bool makes_step() const { return sends == slot::gradient && answers == slot::parameters; }
};

/// Interface through which a server is asked for what it holds.
using holder_actor = caf::typed_actor<caf::replies_to<result_atom, std::uint64_t>::with<holding>>;

/// Options of a port.
struct port_options {
  run_id run{};
  std::uint64_t seed{0};        ///< run.seed, the same for all members; see data::keyed.
  rank_id rank{};               ///< Index of the port's owner among the members and servers.
  std::uint32_t world_size{1};  ///< Number of members of this exchange, n.
  std::uint32_t servers{0};     ///< Number of servers; their indices start at n.
  /// Global ids of members and servers, indexed by position, ascending; empty means id == index.
  std::vector<rank_id> ids{};
  std::uint32_t place{0};        ///< Index of the exchange in the loop: key::place of all its parts.
  std::string name{"exchange"};  ///< Name of the exchange in the topology file.
  models::flat_layout layout{};
  models::buffer_pool pool{};
  setting_values settings{};  ///< Values of exchange_kind::settings with defaults filled in.
  std::chrono::milliseconds timeout{60'000};
  /// Maximum size, in elements, of the pieces into which pipelined routes cut the gradient; 0 for the largest size the
  /// route allows. Affects the time, never the bits.
  std::int64_t chunk_elements{0};
  /// Pieces that are exchanged separately, each as soon as it is contributed, so that contributions may arrive bucket
  /// by bucket. In the order of leaving, covering the whole; empty for a single piece.
  std::vector<range> buckets{};
  /// The worker awaits each bucket separately (key::part is its index), in any order; the step ends with the last
  /// bucket.
  bool answers_buckets{false};
  pass_count passes{};  ///< Number of exchanges per step of the loop, if each micro-batch has one.
  cadence due{};
  carriage carries{};
  schedule when{};  ///< Milestones at which a server will be asked for what it holds.
  /// Whether the schedule of the learning rate counts the updates of all workers together, divided by their number;
  /// otherwise it counts the steps of each worker.
  bool counts_updates{false};
  optimizer_options optimizer{};            ///< Optimizer options for servers that apply updates.
  at::Tensor initial{};                     ///< Initial values [P + B] of all workers; for servers.
  std::shared_ptr<shared_memory> memory{};  ///< Shared memory for the server that holds it.

  bool is_server() const { return static_cast<std::uint32_t>(rank) >= world_size; }
};

class member;

/// Spawns a port that runs `algorithm`: on `where` if given (for folds too long for a handler), otherwise in its
/// handlers.
port_actor spawn_port(caf::actor_system& system, port_options options, std::unique_ptr<member> algorithm,
                      std::unique_ptr<lane> where);

}  // namespace troupe
