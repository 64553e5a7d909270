// The supervisor's state, and the parts of its behaviour that are in files of their own. Only for supervisor*.cpp.
#pragma once

#include "troupe/algorithms/support/assert.hpp"
#include "troupe/runtime/supervision/supervisor.hpp"
#include "troupe/runtime/transport/proxy.hpp"
#include "troupe/runtime/transport/state_frames.hpp"

#include <caf/actor_clock.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/system_messages.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe::supervision {

/// See the drawing in supervisor.cpp.
/// SUPERVISOR-1: phases follow each other in this order; a run may end in any of them.
enum class phase : std::uint8_t { joining, linking, running, ending };

/// Status of a node of the run, possibly the first node itself, as kept by the first node.
struct node_status {
  bool joined{false}, ready{false};
  std::optional<std::string> gone{};  ///< How its control link was lost, if it was.
};

struct supervisor_state {
  static inline const char* name = "supervisor";
  supervisor_options options;
  phase now{phase::joining};
  caf::actor_clock::time_point joining_since{}, leaves_at{};
  crew ours;
  std::map<caf::actor_addr, actor_label> alive;  ///< The actors of our crew that have not ended.
  blame blamed;
  std::unique_ptr<lane> copies;  ///< Where copies of checkpoints are written; null on nodes that keep none.

  // On the first node.
  std::vector<node_status> nodes;                  ///< By index in the plan.
  std::map<rank_id, directed_worker> far_workers;  ///< The workers of other nodes.
  reception_actor reception;

  // On the other nodes.
  bool welcomed{false};  ///< The first node has admitted this node.

  // On the first node, if actors of exchanges are in other programs.
  std::optional<std::vector<directed_worker>> ready{};  ///< The workers, while only such actors are missing.
  caf::actor_clock::time_point ready_since{};

  /// A node is lost, and every node is being asked which ranks wait for it. The run will end with the answers.
  bool diagnosing{false};
  std::map<std::uint32_t, std::function<void(const std::string&)>> asked;  ///< Nodes whose answers are awaited.

  ~supervisor_state() { dismiss(ours); }

  /// Enters a later phase.
  void enter(phase next) {
    TROUPE_ASSERT(next > now, "SUPERVISOR-1: phases follow each other");
    now = next;
  }

  const plan& run_plan() const { return *options.run_plan; }
  std::uint32_t me() const { return options.launch.node; }
  bool is_first() const { return me() == 0; }
  bool is_alone() const { return !options.links.control; }
  const std::string& name_of(std::uint32_t node) const { return run_plan().nodes[node].name; }
  const std::string& first_name() const { return run_plan().nodes.front().name; }

  /// On the first node: calls `act` with the index of every other node that can be reached.
  template <class Act>
  void for_each_node(Act act) const {
    for (std::uint32_t node = 1; node < nodes.size(); ++node)
      if (nodes[node].joined && !nodes[node].gone) act(node);
  }

  /// Sends a message to every node that can be reached, or to the first node.
  void tell_all(const control::message& what) const {
    for_each_node([&](std::uint32_t node) { options.links.control->tell(node, what); });
  }
  void tell_first(const control::message& what) const { options.links.control->tell(0, what); }
};

/// Handlers for the alternatives of a variant.
template <class... Handlers>
struct overloaded : Handlers... {
  using Handlers::operator()...;
};
template <class... Handlers>
overloaded(Handlers...) -> overloaded<Handlers...>;

using supervisor_pointer = supervisor_actor::stateful_pointer<supervisor_state>;

// In supervisor.cpp.

/// Spawns the crew of this node and monitors it.
void launch_crew(supervisor_pointer self);

/// On the first node: starts training with these workers, once all actors of other programs are there.
void begin_run(supervisor_pointer self, const std::vector<directed_worker>& workers);

/// On the first node: notes that the tensor links of a node are open. Training begins when those of all nodes are.
void take_ready(supervisor_pointer self, std::uint32_t node);

/// On another node: opens the tensor links, after all nodes have joined.
void take_link_up(supervisor_pointer self);

// In supervisor_joining.cpp.

/// On the first node: opens the run to the other nodes. On the others: asks the first node to join.
void join_run(supervisor_pointer self);

/// On the first node: admits a visitor to the run as `node` unless that node has already joined.
void admit_node(supervisor_pointer self, transport::visitor_id visitor, std::uint32_t node);

/// On another node: introduces this node to the first node.
void introduce(supervisor_pointer self);

/// On another node: ends the run because the first node runs another version.
void refuse_first(supervisor_pointer self);

/// On another node: takes part in the run.
void take_welcome(supervisor_pointer self, const control::welcome& answer);

/// Reports at intervals which nodes are missing, and fails the run when the time limit has passed.
void check_joining(supervisor_pointer self);

/// On the first node: returns whether all nodes have joined.
bool all_joined(const supervisor_state& my);

// In supervisor_seats.cpp.

/// On the first node: notes from now on which programs take the seats of actors, and which leave them.
void watch_seats(supervisor_pointer self);

/// Returns whether all seats are taken. Otherwise, reports at intervals which are not, begins the run when they are,
/// and fails it when the time limit has passed.
bool all_seated(supervisor_pointer self, const std::vector<directed_worker>& workers);

// In supervisor_traffic.cpp.

/// Returns a function that spawns the proxy of a port on another node.
std::function<peer_port(std::uint32_t rank)> proxies_of_ports(supervisor_pointer self);

/// On the first node: returns a function that sends the files of a checkpoint to the second node, or an empty one if
/// that node keeps no copies; see recorder_options::send_copy.
std::function<void(std::uint64_t step, const state_dict& files)> sender_of_copies(supervisor_pointer self);

/// Writes a copy of the checkpoint of `step` and reports to the first node.
void keep_copy(supervisor_pointer self, std::uint64_t step, const state_dict& files);

/// Returns a listener that passes visitors to the reception, and everything else that the control links report to this
/// supervisor.
transport::control_links::listener control_listener_of(supervisor_pointer self);

/// Returns a listener that passes the frames of other nodes to the actors of this node, and everything else that the
/// tensor links report to this supervisor.
transport::tensor_links::listener tensor_listener_of(supervisor_pointer self);

// In supervisor_messages.cpp.

/// Handles a control message of a node.
void hear(supervisor_pointer self, std::uint32_t node, const control::message& what);

// In supervisor_loss.cpp.

/// On the first node: frees the place of a node that left while nodes were still joining, so that it may join again.
void forget_node(supervisor_state& my, std::uint32_t node);

/// Ends the run because the control link to a node failed, once all nodes have answered which ranks wait for it. `how`:
/// how the link failed.
void lose_node(supervisor_pointer self, std::uint32_t node, const std::string& how);

/// Ends the run because the tensor link between this node and `other` failed. The first node decides.
void lose_link(supervisor_pointer self, std::uint32_t other, const std::string& why);

/// On the first node: ends the run because the tensor link between `node`, which reports it, and `other` failed. The
/// message names the node that is gone, or the link if neither is.
void lose_link_between(supervisor_pointer self, std::uint32_t node, std::uint32_t other, const std::string& why);

/// Answers the first node which ranks of this node wait for ranks of a lost node.
void report_waiting(supervisor_pointer self, std::uint32_t lost_node);

/// On the first node: takes the answer of a node that was asked which of its ranks wait for a lost node.
void take_waiting(supervisor_pointer self, std::uint32_t node, const std::string& ranks);

// In supervisor_ending.cpp.

/// Ends the run on this node, and on the first node everywhere. A failure that `run_end` already has is kept.
void end_run(supervisor_pointer self);

/// Ends the run with a failure. The first node decides; the others report to it and wait for its `end`.
void fail_run(supervisor_pointer self, std::string why);

/// Ends the run because of a signal.
void halt_run(supervisor_pointer self, int signal);

/// Ends the run because the first node did, with this exit status and failure.
void follow_end(supervisor_pointer self, std::int32_t status, const std::string& failure);

/// Handles the end of an actor of the crew.
void handle_down(supervisor_pointer self, const caf::down_msg& down);

/// Ends the supervisor when the actors of this node have ended and the other nodes have left.
void quit_if_done(supervisor_pointer self);

}  // namespace troupe::supervision
