// The supervisor's state, and the parts of its behaviour that are in files of their own. Only for supervisor*.cpp.
#pragma once

#include "troupe/runtime/node/supervisor.hpp"
#include "troupe/runtime/transport/state_frames.hpp"

#include <caf/actor_clock.hpp>
#include <caf/result.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/system_messages.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace troupe::supervision {

/// joining → linking → running → ending. A run of one node begins at `running`; every phase may go to `ending`.
enum class phase : std::uint8_t { joining, linking, running, ending };

/// What the first node knows about a node of the run, itself included.
struct node_status {
  node_actor handle;  ///< Its supervisor, once it has joined; null for the first node itself.
  bool joined{false}, ready{false}, gone{false};
  std::vector<directed_worker> workers{};  ///< In rank order, once it is ready.
  bool is_reachable() const { return handle && !gone; }
};

struct supervisor_state {
  static inline const char* name = "supervisor";
  supervisor_options options;
  phase now{phase::joining};
  caf::actor_clock::time_point joining_since{};
  crew ours;
  std::map<caf::actor_addr, std::string> alive;  ///< The actors of our crew that have not ended, with their names.
  blame blamed;
  std::unique_ptr<lane> copies;  ///< Where copies of checkpoints are written; null on nodes that keep none.
  transport::session_id session{};
  std::vector<node_status> nodes;  ///< On the first node, by index in the plan; empty on the others.
  /// A node is lost, and every node is being asked which ranks wait for it. The run will end with the answers.
  bool diagnosing{false};

  ~supervisor_state() { dismiss(ours); }

  const plan& run_plan() const { return *options.run_plan; }
  std::uint32_t me() const { return options.launch.node; }
  bool is_first() const { return me() == 0; }
  bool is_alone() const { return run_plan().nodes.size() == 1; }
  const std::string& name_of(std::uint32_t node) const { return run_plan().nodes[node].name; }
  const std::string& first_name() const { return run_plan().nodes.front().name; }
};

using supervisor_pointer = supervisor_actor::stateful_pointer<supervisor_state>;

/// Reason given for a lost node if nothing else is known.
constexpr auto* unknown_loss = "it was killed, disconnected or unresponsive";

// In supervisor.cpp.

/// Spawns the crew of this node and monitors it.
void launch_crew(supervisor_pointer self);

// In supervisor_joining.cpp.

/// On the first node: opens the run to the other nodes. On the others: asks the first node to join.
void join_run(supervisor_pointer self);

/// On the first node: takes a node into the run, or refuses it with the reason.
caf::result<welcome> admit_node(supervisor_pointer self, const introduction& who);

/// Reports at intervals which nodes are missing. On the first node, fails the run when the time limit has passed.
void check_joining(supervisor_pointer self);

/// On the first node: whether all nodes have joined.
bool all_joined(const supervisor_state& my);

// In supervisor_traffic.cpp.

/// Returns the proxies for ports on other nodes.
std::function<peer_port(std::uint32_t rank)> proxies_of_ports(supervisor_pointer self);

/// On the first node: returns what sends a state to a worker of another node; see coordinator_options::restore_far.
std::function<bool(rank_id, const state_dict&)> sender_of_states(supervisor_pointer self);

/// On the first node: returns what sends the files of a checkpoint to the second node, if that is to keep a copy; see
/// recorder_options::send_copy.
std::function<void(std::uint64_t step, const state_dict& files)> sender_of_copies(supervisor_pointer self);

/// Writes a copy of the checkpoint of `step` and reports to the first node.
void keep_copy(supervisor_pointer self, std::uint64_t step, const state_dict& files);

/// Returns what passes the frames of other nodes to the actors of this node.
std::function<void(transport::frame&&, std::shared_ptr<const void> receipt)> receiver_of_frames(
    supervisor_pointer self);

// In supervisor_loss.cpp.

/// Ends the run because the connection to a node failed in this way, once all nodes have answered who waits for it.
void lose_node(supervisor_pointer self, std::uint32_t node, const std::string& how);

/// On the first node: ends the run because the tensor link to node `other` failed, as `node` reports. Names the node
/// that is gone, or the link if none is.
void lose_link(supervisor_pointer self, std::uint32_t node, std::uint32_t other, const std::string& why);

/// Answers which ranks of this node wait for ranks of a lost node.
caf::result<std::string> report_waiting(supervisor_pointer self, std::uint32_t lost_node);

// In supervisor_ending.cpp.

/// Ends the run on this node, and on the first node everywhere. A failure that `run_end` already has is kept.
void end_run(supervisor_pointer self);

/// Ends the run with a failure. The first node decides; the others report to it and wait for its `end`.
void fail_run(supervisor_pointer self, std::string why);

/// Ends the run because of a signal.
void halt_run(supervisor_pointer self, int signal);

/// Ends the run because the first node did, with this exit status and failure.
void follow_end(supervisor_pointer self, std::int32_t status, const std::string& failure);

/// Handles the end of an actor of the crew, or of the supervisor of another node.
void handle_down(supervisor_pointer self, const caf::down_msg& down);

}  // namespace troupe::supervision
