// The phase `joining`: the other nodes introduce themselves to the first node, which admits or refuses them.
#include "troupe/runtime/node/fingerprint.hpp"
#include "troupe/runtime/node/supervisor_state.hpp"
#include "troupe/runtime/topology/canonical.hpp"
#include "troupe/runtime/topology/value.hpp"
#include "troupe/runtime/transport/proxy.hpp"

#include <caf/all.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace troupe::supervision {

namespace {

using std::chrono::milliseconds;

/// Returns the nodes that have not joined, such as "node beta" or "nodes beta and gamma".
std::string missing_nodes(const supervisor_state& my) {
  std::vector<std::string> names;
  for (std::uint32_t node = 0; node < my.nodes.size(); ++node)
    if (!my.nodes[node].joined) names.push_back(my.name_of(node));
  return (names.size() == 1 ? "node " : "nodes ") + topology::listed(names, "and");
}

void begin_joining(supervisor_pointer self) {
  self->state.joining_since = self->clock().now();
  check_joining(self);
}

/// Returns why the introduction of a node does not fit that of the first node, or "".
std::string difference_of_versions(const introduction& first, const introduction& who, const std::string& host) {
  if (who.protocol != first.protocol || who.version != first.version)
    return "the versions of Troupe differ: " + first.version + " (protocol " + std::to_string(first.protocol) +
           ") on node " + host + ", " + topology::printable(who.version) + " (protocol " +
           std::to_string(who.protocol) + ") here";
  if (who.topology != first.topology)
    return "the topology file differs from that of node " + host + ": " +
           topology::differences(who.topology, first.topology);
  return {};
}

std::string difference_of_inputs(const plan& plan, const introduction& first, const introduction& who) {
  const auto& host = plan.nodes.front().name;
  if (who.data != first.data) return "the samples of " + plan.data->name + " differ from those of node " + host;
  if (who.weights == first.weights) return {};
  return (plan.file.model.script.empty() ? "the initial weights (model.init) differ from those of node "
                                         : "the module (model.script) or the initial weights (model.init) "
                                           "differ from those of node ") +
         host;
}

/// Returns the index in the plan of the node that introduces itself, or 0 if the run expects no such node.
std::uint32_t index_of(const plan& plan, const introduction& who) {
  for (std::uint32_t node = 1; node < plan.nodes.size(); ++node)
    if (plan.nodes[node].name == who.node) return node;
  return 0;
}

/// Returns why a node may not join, or "".
std::string objection_to(const supervisor_state& my, const introduction& who) {
  if (auto reason = difference_of_versions(my.options.self, who, my.first_name()); !reason.empty()) return reason;
  const auto node = index_of(my.run_plan(), who);
  if (node == 0) return "the run expects no other node with this name";
  if (my.now != phase::joining || my.nodes[node].joined) return "node " + my.name_of(node) + " has already joined";
  if (who.continues && !my.options.self.continues)
    return "node " + my.first_name() + " begins a new run, so that the copies in the folder of --resume would be " +
           "replaced; start this node without --resume, or node " + my.first_name() + " with it";
  return difference_of_inputs(my.run_plan(), my.options.self, who);
}

/// Returns the handles with which other processes open the memories.
std::vector<memory_handle> handles_of(const crew& ours) {
  std::vector<memory_handle> handles;
  for (const auto& memory : ours.memories) handles.push_back(memory ? memory->handle() : memory_handle{});
  return handles;
}

void open_run(supervisor_pointer self) {
  auto& my = self->state;
  my.session = my.options.session;
  my.nodes.resize(my.run_plan().nodes.size());
  my.nodes[0].joined = true;
  my.options.launch.far = far_actors{
      .port_of = proxies_of_ports(self), .restore = sender_of_states(self), .send_copy = sender_of_copies(self)};
  launch_crew(self);
  begin_joining(self);
}

void take_welcome(supervisor_pointer self, const welcome& answer) {
  auto& my = self->state;
  if (answer.session.size() != my.session.size()) throw std::runtime_error("the first node sent no session id");
  if (answer.memories.size() != my.run_plan().exchanges.size())
    throw std::runtime_error("the first node runs a different topology");
  std::memcpy(my.session.data(), answer.session.data(), my.session.size());
  my.options.launch.far =
      far_actors{.coordinator = caf::actor_cast<milestone_sink>(answer.coordinator),
                 .recorder = caf::actor_cast<progress_sink>(answer.recorder),
                 .results = transport::spawn_coordinator_proxy(self->home_system(), my.options.plane, 0),
                 .memories = answer.memories,
                 .port_of = proxies_of_ports(self)};
  launch_crew(self);
  my.options.report("joined; node " + my.first_name() + " coordinates the run");
  begin_joining(self);
}

void take_refusal(supervisor_pointer self, const caf::error& why) {
  auto& end = *self->state.options.end;
  if (is(why, errc::mismatch))
    end.refusal = describe(why);
  else
    end.failure = "node " + self->state.first_name() + " did not answer: " + describe(why);
  end_run(self);
}

}  // namespace

void join_run(supervisor_pointer self) {
  auto& my = self->state;
  if (my.is_first()) return open_run(self);
  self->monitor(my.options.first);
  self->request(my.options.first, my.run_plan().file.run.timeout, join_atom_v, my.options.self)
      .then([self](const welcome& answer) { take_welcome(self, answer); },
            [self](const caf::error& why) { take_refusal(self, why); });
}

caf::result<welcome> admit_node(supervisor_pointer self, const introduction& who) {
  auto& my = self->state;
  if (!my.is_first()) return make_error(errc::mismatch, "this is not the first node of the file");
  if (const auto reason = objection_to(my, who); !reason.empty()) {
    my.options.report("refused node " + topology::printable(who.node) + ": " + reason);
    return make_error(errc::mismatch, reason);
  }
  auto& node = my.nodes[index_of(my.run_plan(), who)];
  node = {.handle = caf::actor_cast<node_actor>(self->current_sender()), .joined = true};
  self->monitor(node.handle);
  my.options.report("node " + who.node + " has joined");
  if (const auto difference = differing(my.options.self.fingerprint, who.fingerprint); !difference.empty())
    my.options.report("node " + who.node + " may compute different bits (" + difference +
                      "); identical weights in every run are not guaranteed" +
                      (my.run_plan().verify_every > 0
                           ? ", and if the parameters of the workers differ, run.verify_every ends the run"
                           : ""));
  if (all_joined(my)) self->send(self, wire_atom_v);  // after the welcome
  return welcome{.session = {reinterpret_cast<const char*>(my.session.data()), my.session.size()},
                 .coordinator = caf::actor_cast<caf::strong_actor_ptr>(my.ours.coordinator),
                 .recorder = caf::actor_cast<caf::strong_actor_ptr>(my.ours.recorder),
                 .memories = handles_of(my.ours)};
}

void check_joining(supervisor_pointer self) {
  auto& my = self->state;
  const auto& wait = my.options.wait;
  const auto waited = std::chrono::duration_cast<milliseconds>(self->clock().now() - my.joining_since);
  if (my.is_first() && waited >= wait.limit)
    return fail_run(self, missing_nodes(my) + " did not join within " + topology::print_duration(wait.limit) + " (" +
                              wait.set_by + "); start every node within this time, or set a longer one");
  const auto first_report =
      my.is_first() ? wait.first_report : wait.interval;  // the others have just reported "joined"
  if (waited >= first_report)
    my.options.report("waiting for " + (my.is_first() ? missing_nodes(my) + " to join"
                                                      : "node " + my.first_name() + " to begin the run"));
  const auto next = waited < first_report ? first_report - waited : wait.interval;
  self->delayed_send(self, my.is_first() ? std::min(next, wait.limit - waited) : next, tick_atom_v);
}

bool all_joined(const supervisor_state& my) {
  return std::all_of(my.nodes.begin(), my.nodes.end(), [](const auto& node) { return node.joined; });
}

}  // namespace troupe::supervision
