// The supervisor of a node: connects the nodes of a run, spawns this node's part, and decides what to do when an actor
// or a node fails. The first node decides how the run ends and informs the others.
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

/// Messages between nodes. The first node publishes its actor on its control port.
/// join:  (to the first) a node asks to join; answered with a welcome, or with errc::mismatch and the difference.
/// wire:  (from the first) all nodes have joined; link the tensor plane.
/// ready: (to the first) this node is linked; the message has its workers, in rank order.
/// fail:  (to the first) this node has failed.
/// lost:  (to the first) the tensor link to the node with this index broke, and how;
///        (from the first) the node with this index is lost; asks which ranks here wait for its ranks.
/// halt:  (to the first) this node received a signal; asks to end the run in good order.
/// checkpoint: (to the first) this node has written its copy of the checkpoint of this step, or could not.
/// end:   (from the first) the run is over: its exit status, and the reason if it failed.
using node_actor =
    caf::typed_actor<caf::replies_to<join_atom, introduction>::with<welcome>, caf::reacts_to<wire_atom>,
                     caf::reacts_to<ready_atom, std::vector<caf::actor>>, caf::reacts_to<fail_atom, std::string>,
                     caf::reacts_to<lost_atom, std::uint32_t, std::string>,
                     caf::replies_to<lost_atom, std::uint32_t>::with<std::string>,
                     caf::reacts_to<halt_atom, std::int32_t>, caf::reacts_to<checkpoint_atom, std::uint64_t>,
                     caf::reacts_to<end_atom, std::int32_t, std::string>>;

/// Messages within a node.
/// join:   from its own process: take part in the run.
/// linked: from the tensor plane: all links are established.
/// tick:   from itself, while it waits for the other nodes to join or to leave.
/// checkpoint: from the tensor plane: the files of a checkpoint, of which this node keeps a copy.
/// done:   from the lane that writes copies.
using supervisor_actor =
    node_actor::extend<caf::reacts_to<join_atom>, caf::reacts_to<linked_atom>, caf::reacts_to<tick_atom>,
                       caf::reacts_to<checkpoint_atom, std::uint64_t, state_dict>,
                       caf::reacts_to<done_atom, completion>>;

/// How a node waits for the other nodes before the run begins.
struct join_wait {
  std::chrono::milliseconds limit{300'000};
  std::string set_by{"run.join_timeout"};      ///< The key of the topology file that sets the limit.
  std::chrono::milliseconds first_report{0};   ///< Time until the first report of missing nodes.
  std::chrono::milliseconds interval{10'000};  ///< Time between two reports.
};

/// Options of a supervisor.
struct supervisor_options {
  std::shared_ptr<const plan> run_plan;
  data::dataset_pair data;
  lane_factory* lanes{nullptr};  ///< Outlives the actor.
  launch_options launch;         ///< The supervisor fills in `far`.
  introduction self{};
  std::shared_ptr<transport::tensor_plane> plane;  ///< Null if the plan has only one node.
  transport::session_id session{};                 ///< Random; only on the first node.
  node_actor first{};                              ///< Null on the first node itself.
  join_wait wait{};                                ///< Time limit and reports while nodes are missing.
  std::function<void(const std::string&)> report;  ///< Prints a line for the user who started the node.
  /// Writes a copy of a checkpoint, on the node that keeps one, or warns that it cannot. Called on a lane.
  std::function<void(const state_dict& files)> keep_copy{};
  std::shared_ptr<run_end> end;  ///< Written before the actor ends.
};

/// Spawns the supervisor of a node. It starts on `join` and ends after all actors of the node have ended; `end` then
/// describes the outcome of the run.
supervisor_actor spawn_supervisor(caf::actor_system& system, supervisor_options options);

}  // namespace troupe
