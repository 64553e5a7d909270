// The interface of the supervisor, and its phases from linking to running.
#include "troupe/runtime/node/supervisor.hpp"

#include "troupe/runtime/node/supervisor_state.hpp"

#include <caf/all.hpp>

#include <optional>
#include <utility>

namespace troupe {

namespace supervision {

void launch_crew(supervisor_pointer self) {
  auto& my = self->state;
  my.ours = launch(self->home_system(), my.run_plan(), my.options.data, *my.options.lanes, my.options.launch);
  my.options.launch.initial.reset();
  for (const auto& [name, member] : my.ours.members) {
    my.alive.emplace(member.address(), name);
    self->monitor(member);
  }
}

namespace {

/// Takes part in the run: alone, or with the other nodes.
void start(supervisor_pointer self) {
  auto& my = self->state;
  if (!my.is_alone()) return join_run(self);
  launch_crew(self);
  my.now = phase::running;
  begin(my.ours, my.ours.workers);
}

/// Establishes the tensor links to all other nodes; `linked` follows.
void link_node(supervisor_pointer self) {
  auto& my = self->state;
  my.now = phase::linking;
  std::vector<topology::endpoint> addresses;
  for (const auto& node : my.run_plan().nodes) addresses.push_back(node.address);
  const auto handle = caf::actor_cast<supervisor_actor>(self);
  my.options.plane->link(
      my.session, my.me(), addresses,
      {.linked = [handle] { caf::anon_send(handle, linked_atom_v); },
       .lost = [handle](std::uint32_t node, const std::string& why) { caf::anon_send(handle, lost_atom_v, node, why); },
       .arrived = receiver_of_frames(self)});
}

/// Links this node, and on the first node all others, unless a node has left since the last one joined.
void link_all(supervisor_pointer self) {
  auto& my = self->state;
  if (my.now != phase::joining || !all_joined(my)) return;
  for (const auto& node : my.nodes)
    if (node.handle) self->send(node.handle, wire_atom_v);
  link_node(self);
}

/// On the first node: starts training if all nodes are linked.
void begin_if_ready(supervisor_pointer self) {
  auto& my = self->state;
  std::vector<directed_worker> workers;
  for (const auto& node : my.nodes) {
    if (!node.ready) return;
    workers.insert(workers.end(), node.workers.begin(), node.workers.end());
  }
  my.now = phase::running;
  begin(my.ours, workers);
}

void take_linked(supervisor_pointer self) {
  auto& my = self->state;
  if (my.is_first()) {
    my.nodes[0].ready = true;
    my.nodes[0].workers = my.ours.workers;
    return begin_if_ready(self);
  }
  my.now = phase::running;
  std::vector<caf::actor> workers;
  for (const auto& worker : my.ours.workers) workers.push_back(caf::actor_cast<caf::actor>(worker));
  self->send(my.options.first, ready_atom_v, std::move(workers));
}

/// Returns the index of the node that sent the current message, if it is one of the run.
std::optional<std::uint32_t> sending_node(supervisor_pointer self) {
  const auto sender = caf::actor_cast<caf::actor_addr>(self->current_sender());
  const auto& nodes = self->state.nodes;
  for (std::uint32_t i = 0; i < nodes.size(); ++i)
    if (nodes[i].handle && nodes[i].handle.address() == sender) return i;
  return {};
}

void take_ready(supervisor_pointer self, const std::vector<caf::actor>& workers) {
  auto& my = self->state;
  const auto from = sending_node(self);
  if (!from || my.nodes[*from].ready) return;
  auto& node = my.nodes[*from];
  const auto& planned = my.run_plan().nodes[*from];
  if (workers.size() != planned.workers)
    return fail_run(self, "node " + planned.name + " has " + std::to_string(workers.size()) + " workers, but " +
                              std::to_string(planned.workers) + " are planned");
  node.ready = true;
  for (const auto& worker : workers) node.workers.push_back(caf::actor_cast<directed_worker>(worker));
  begin_if_ready(self);
}

void take_failure(supervisor_pointer self, const std::string& why) {
  if (sending_node(self) && !self->state.diagnosing) fail_run(self, why);
}

/// Handles a broken tensor link to `node`, of this node or, on the first node, of the one that reports it. The first
/// node decides; the others report to it.
void take_broken_link(supervisor_pointer self, std::uint32_t node, const std::string& why) {
  auto& my = self->state;
  if (node >= my.run_plan().nodes.size() || my.now == phase::ending) return;
  if (!my.is_first()) return self->send(my.options.first, lost_atom_v, node, why);
  const auto reporter = self->current_sender() ? sending_node(self) : my.me();
  if (reporter) lose_link(self, *reporter, node, why);
}

/// On the first node: the node that keeps copies of checkpoints has written one.
void take_copied(supervisor_pointer self, std::uint64_t step) {
  const auto& my = self->state;
  const auto from = sending_node(self);
  if (from && my.run_plan().keeps_copies(*from)) self->send(my.ours.recorder, checkpoint_atom_v, step);
}

void take_tick(supervisor_pointer self) {
  if (self->state.now == phase::ending) return self->quit();
  if (self->state.now == phase::joining) check_joining(self);
}

supervisor_actor::behavior_type supervisor(supervisor_pointer self, supervisor_options options) {
  report_exceptions(self);
  self->state.options = std::move(options);
  self->set_down_handler([self](const caf::down_msg& down) { handle_down(self, down); });
  return {
      [self](join_atom) { start(self); },
      [self](join_atom, const introduction& who) { return admit_node(self, who); },
      [self](wire_atom) { link_all(self); },
      [self](linked_atom) { take_linked(self); },
      [self](ready_atom, const std::vector<caf::actor>& workers) { take_ready(self, workers); },
      [self](fail_atom, const std::string& why) { take_failure(self, why); },
      [self](lost_atom, std::uint32_t node, const std::string& why) { take_broken_link(self, node, why); },
      [self](lost_atom, std::uint32_t node) { return report_waiting(self, node); },
      [self](halt_atom, std::int32_t signal) { halt_run(self, signal); },
      [self](checkpoint_atom, std::uint64_t step) { take_copied(self, step); },
      [self](checkpoint_atom, std::uint64_t step, const state_dict& files) { keep_copy(self, step, files); },
      [self](end_atom, std::int32_t status, const std::string& failure) { follow_end(self, status, failure); },
      [self](tick_atom) { take_tick(self); },
      [](done_atom, const completion& done) { (*done.run)(); },
  };
}

}  // namespace
}  // namespace supervision

supervisor_actor spawn_supervisor(caf::actor_system& system, supervisor_options options) {
  return system.spawn(supervision::supervisor, std::move(options));
}

}  // namespace troupe
