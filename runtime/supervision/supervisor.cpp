// The interface of the supervisor, and its phases from linking to running.
//
//   first node:   joining ── all have joined ──► linking ── all are linked ──► running ── coordinator ends ──► ending
//   other nodes:  joining ── link_up ──────────► linking ── linked ──────────► running ── end ───────────────► ending
//
// A run of one node begins at `running`. Every phase goes to `ending` when a failure, a loss or a signal ends the run;
// while the first node finds out which ranks wait for a lost node (`diagnosing`), the phase does not change.
#include "troupe/runtime/supervision/supervisor.hpp"

#include "troupe/runtime/supervision/supervisor_state.hpp"

#include <caf/all.hpp>

#include <algorithm>
#include <utility>

namespace troupe {

namespace supervision {

void launch_crew(supervisor_pointer self) {
  auto& my = self->state;
  my.ours = launch(self->home_system(), my.run_plan(), my.options.data, *my.options.lanes, my.options.launch);
  my.options.launch.initial.reset();
  auto& actors = my.ours.actors;
  if (my.reception) actors.push_back({label_of(role::reception), caf::actor_cast<caf::actor>(my.reception)});
  for (const auto& [rank, proxy] : my.far_workers)
    actors.push_back({{{.what = role::link}, "link to worker " + std::to_string(static_cast<std::uint32_t>(rank))},
                      caf::actor_cast<caf::actor>(proxy)});
  watch_seats(self);
  for (const auto& [label, actor] : actors) {
    my.alive.emplace(actor.address(), label);
    self->monitor(actor);
  }
}

void begin_run(supervisor_pointer self, const std::vector<directed_worker>& workers) {
  auto& my = self->state;
  if (!all_seated(self, workers)) return;
  my.enter(phase::running);
  my.options.end->begun = true;
  begin(my.ours, workers);
  if (my.options.began) my.options.began(my.ours);
}

namespace {

/// Takes part in the run: alone, or with the other nodes.
void start(supervisor_pointer self) {
  auto& my = self->state;
  if (my.now == phase::ending) return;  // a signal has already ended the run
  if (!my.is_alone()) return join_run(self);
  launch_crew(self);
  begin_run(self, my.ours.workers);
}

/// Establishes the tensor links to all other nodes; `linked` follows.
void link_node(supervisor_pointer self) {
  self->state.enter(phase::linking);
  self->state.options.links.tensors->open(tensor_listener_of(self));
}

/// On the first node: starts training if all nodes are linked.
void begin_if_ready(supervisor_pointer self) {
  auto& my = self->state;
  if (!std::all_of(my.nodes.begin(), my.nodes.end(), [](const auto& node) { return node.ready; })) return;
  auto workers = my.ours.workers;
  for (const auto& [rank, proxy] : my.far_workers) workers.push_back(proxy);
  begin_run(self, workers);
}

void take_linked(supervisor_pointer self) {
  auto& my = self->state;
  if (my.now != phase::linking) return;
  if (my.is_first()) {
    my.nodes[0].ready = true;
    return begin_if_ready(self);
  }
  my.enter(phase::running);
  my.options.end->begun = true;
  my.tell_first(control::linked{});
}

void handle(supervisor_pointer self, const link_event& event) {
  std::visit(overloaded{
                 [self](const link_event::reached_first&) { introduce(self); },
                 [self](const link_event::foreign_first&) { refuse_first(self); },
                 [self](const link_event::heard& heard) { hear(self, heard.node, heard.what); },
                 [self](const link_event::parted& parted) { lose_node(self, parted.node, parted.why); },
                 [self](const link_event::linked&) { take_linked(self); },
                 [self](const link_event::lost& lost) { lose_link(self, lost.node, lost.why); },
             },
             event.what);
}

void take_tick(supervisor_pointer self) {
  if (self->state.now == phase::ending && self->clock().now() >= self->state.leaves_at) return self->quit();
  if (self->state.now == phase::joining) check_joining(self);
}

/// Reports an exception in a handler to the first node, which otherwise only sees that this node is gone.
caf::error report_exception(supervisor_pointer self, const std::exception_ptr& raised) {
  const auto& my = self->state;
  const auto text = describe(raised);
  if (!my.is_first()) my.tell_first(control::failed{"node " + my.name_of(my.me()) + ", supervisor: " + text});
  return make_error(errc::failed, text);
}

supervisor_actor::behavior_type supervisor(supervisor_pointer self, supervisor_options options) {
  self->set_exception_handler([self](std::exception_ptr& raised) { return report_exception(self, raised); });
  self->state.options = std::move(options);
  self->set_down_handler([self](const caf::down_msg& down) { handle_down(self, down); });
  return {
      [self](join_atom) { start(self); },
      [self](join_atom, transport::visitor_id visitor, std::uint32_t node) {
        admit_node(self, visitor, node);
        if (self->state.now != phase::joining || !all_joined(self->state)) return;
        self->state.tell_all(control::link_up{});
        link_node(self);
      },
      [self](const link_event& event) { handle(self, event); },
      [self](halt_atom, std::int32_t signal) { halt_run(self, signal); },
      [self](checkpoint_atom, std::uint64_t step, const state_dict& files) { keep_copy(self, step, files); },
      [self](tick_atom) { take_tick(self); },
      [](done_atom, const completion& done) { (*done.run)(); },
  };
}

}  // namespace

void take_ready(supervisor_pointer self, std::uint32_t node) {
  auto& my = self->state;
  if (my.now != phase::linking) return;
  my.nodes[node].ready = true;
  begin_if_ready(self);
}

void take_link_up(supervisor_pointer self) {
  const auto& my = self->state;
  if (my.now == phase::joining && my.welcomed) link_node(self);
}

}  // namespace supervision

supervisor_actor spawn_supervisor(caf::actor_system& system, supervisor_options options) {
  return system.spawn(supervision::supervisor, std::move(options));
}

}  // namespace troupe
