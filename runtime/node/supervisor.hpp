// The supervisor of a node: lets the nodes of a run find each other, spawns this node's part, and knows who died and
// what now. A run has one end: the first node decides it, and tells the others.
#pragma once

#include "troupe/runtime/node/launcher.hpp"
#include "troupe/runtime/node/run_end.hpp"
#include "troupe/runtime/transport/tensor_plane.hpp"

#include <caf/typed_actor.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// What nodes say to each other; the first node's is published on its control port.
/// join:  (to the first) answered with a welcome, or with errc::mismatch: what differs, in words.
/// wire:  (from the first) all have joined: link the tensor plane.
/// ready: (to the first) linked; here are this node's workers, in rank order.
/// fail:  (to the first) something here has failed.
/// lost:  (to the first) the tensor link to the node of this index broke, and how;
///        (from the first) this node is gone: who waits for its ranks here?
/// halt:  (to the first) a signal came here: end the run in good order.
/// end:   (from the first) the run is over: its exit status, and why it failed where it did.
using node_actor =
    caf::typed_actor<caf::replies_to<join_atom, introduction>::with<welcome>, caf::reacts_to<wire_atom>,
                     caf::reacts_to<ready_atom, std::vector<caf::actor>>, caf::reacts_to<fail_atom, std::string>,
                     caf::reacts_to<lost_atom, std::uint32_t, std::string>,
                     caf::replies_to<lost_atom, std::uint32_t>::with<std::string>,
                     caf::reacts_to<halt_atom, std::int32_t>, caf::reacts_to<end_atom, std::int32_t, std::string>>;

/// join:   from its own process: take part.
/// linked: from the tensor plane.
/// tick:   from itself, while it waits for the others to join or to leave.
using supervisor_actor =
    node_actor::extend<caf::reacts_to<join_atom>, caf::reacts_to<linked_atom>, caf::reacts_to<tick_atom>>;

/// How a node waits for the others before the run begins.
struct join_wait {
  std::chrono::milliseconds limit{300'000};
  std::string set_by{"run.join_timeout"};     ///< Which key of the topology file the limit is.
  std::chrono::milliseconds first_word{0};    ///< When it first reports who is missing,
  std::chrono::milliseconds between{10'000};  ///< and how often after that.
};

struct supervisor_options {
  std::shared_ptr<const plan> what;
  data::dataset_pair data;
  lane_factory* lanes{nullptr};  ///< Outlives the actor.
  launch_options launch;         ///< `far` is filled in by the supervisor.
  introduction self{};
  std::shared_ptr<transport::tensor_plane> plane;  ///< None where the plan has one node.
  node_actor first{};                              ///< None on the first node itself.
  join_wait wait{};                                ///< For the other nodes to join.
  std::function<void(const std::string&)> say;     ///< A line for the person who started the node.
  std::shared_ptr<run_end> end;                    ///< Written before the actor ends.
};

/// Spawns the supervisor of a node, which waits for `join` and ends when all of the node's actors have, and `end` says
/// how the run did.
supervisor_actor spawn_supervisor(caf::actor_system& system, supervisor_options options);

}  // namespace troupe
