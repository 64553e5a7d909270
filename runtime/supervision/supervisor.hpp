// The supervisor of a node: connects the nodes of a run, spawns this node's part, and decides what to do when an actor
// or a node fails. The first node decides how the run ends and informs the others. A supervisor reaches the other nodes
// only through links, which may be sockets or simulated.
#pragma once

#include "troupe/runtime/launch/launcher.hpp"
#include "troupe/runtime/supervision/reception.hpp"
#include "troupe/runtime/supervision/run_end.hpp"
#include "troupe/runtime/transport/links.hpp"

#include <caf/typed_actor.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>

namespace troupe {

/// What the links of this node report; see transport::control_links and transport::tensor_links.
struct link_event {
  struct reached_first {};
  struct foreign_first {};
  struct heard {
    std::uint32_t node{0};
    control::message what;
  };
  struct parted {
    std::uint32_t node{0};
    std::string why;
  };
  struct linked {};
  struct lost {
    std::uint32_t node{0};
    std::string why;
  };
  std::variant<reached_first, foreign_first, heard, parted, linked, lost> what;
};

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, link_event& x) {
  return detail::inspect_local(f, "link_event", x.what.index());
}

/// join:       sent by its own process: takes part in the run.
/// join, a visitor, a node: sent by the reception: the visitor may become that node.
/// link_event: sent by the links.
/// halt:       sent by its own process, which has received this signal.
/// checkpoint: the files of a checkpoint of which this node keeps a copy.
/// tick:       sent to itself while it waits for the other nodes to join or to leave.
/// done:       sent by the lane that writes copies, and to itself.
using supervisor_actor =
    caf::typed_actor<caf::reacts_to<join_atom>, caf::reacts_to<join_atom, transport::visitor_id, std::uint32_t>,
                     caf::reacts_to<link_event>, caf::reacts_to<halt_atom, std::int32_t>,
                     caf::reacts_to<checkpoint_atom, std::uint64_t, state_dict>, caf::reacts_to<tick_atom>,
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
  control::introduction self{};
  transport::links links;                          ///< Null if there is only one node.
  join_wait wait{};                                ///< Time limit and reports while nodes are missing.
  std::function<void(const std::string&)> report;  ///< Prints a line on the terminal from which the node was started.
  /// Called with the actors of this node when training begins, before any of them handles a message; only on the first
  /// node.
  std::function<void(const crew&)> began{};
  /// Writes a copy of a checkpoint, on the node that keeps one, or warns that it cannot. Called on a lane.
  std::function<void(const state_dict& files)> keep_copy{};
  std::shared_ptr<run_end> end{};  ///< Written before the actor ends.
};

/// Spawns the supervisor of a node. It starts on `join` and ends after all actors of the node have ended; `end` then
/// describes the outcome of the run.
supervisor_actor spawn_supervisor(caf::actor_system& system, supervisor_options options);

}  // namespace troupe
