// The control messages of other nodes. The links have checked that each comes from a node that may send it, and is
// about nodes that exist and workers of that node; here, those that do not fit the phase are ignored.
#include "troupe/runtime/supervision/supervisor_state.hpp"

#include <caf/all.hpp>

#include <type_traits>
#include <utility>

namespace troupe::supervision {

namespace {

/// On the first node: an actor of another node has failed.
void take_failure(supervisor_pointer self, const std::string& why) {
  if (!self->state.diagnosing) fail_run(self, why);
}

/// On the first node: another node has received a signal. One that leaves before all have joined can be replaced.
void take_interrupted(supervisor_pointer self, std::uint32_t node, int signal) {
  if (self->state.now == phase::joining) return forget_node(self->state, node);
  halt_run(self, signal);
}

/// On the first node: the node that keeps copies of checkpoints has written one.
void take_copied(supervisor_pointer self, std::uint32_t node, std::uint64_t step) {
  const auto& my = self->state;
  if (my.run_plan().keeps_copies(node)) self->send(my.ours.recorder, checkpoint_atom_v, step);
}

/// On the first node: a worker of another node has answered `halt`.
void take_halted(supervisor_pointer self, const control::halted& halted) {
  const auto& proxies = self->state.far_workers;
  if (const auto found = proxies.find(halted.rank); found != proxies.end())
    self->send(found->second, halt_atom_v, halted.steps);
}

/// On another node: the first node rejects the introduction.
void take_refusal(supervisor_pointer self, const std::string& reason) {
  auto& my = self->state;
  if (my.now != phase::joining || my.welcomed) return;
  my.options.end->refusal = reason;
  end_run(self);
}

/// Returns the worker of this node with this rank.
const directed_worker& worker_of(const supervisor_state& my, rank_id rank) {
  return my.ours.workers.at(static_cast<std::uint32_t>(rank) - my.run_plan().nodes[my.me()].first_rank);
}

/// Asks a worker of this node to halt; the first node hears its answer.
void halt_worker(supervisor_pointer self, rank_id rank) {
  const auto& my = self->state;
  self->request(worker_of(my, rank), my.run_plan().file.run.timeout, halt_atom_v)
      .then(
          [self, rank](std::uint64_t steps) {
            self->state.tell_first(control::halted{rank, steps});
          },
          [](const caf::error&) {});  // the coordinator has a deadline of its own
}

/// The messages between nodes.
auto of_nodes(supervisor_pointer self, std::uint32_t node) {
  return overloaded{
      [self, node](const control::linked&) { take_ready(self, node); },
      [self](const control::failed& failed) { take_failure(self, failed.why); },
      [self, node](const control::link_lost& lost) { lose_link_between(self, node, lost.node, lost.why); },
      [self, node](const control::waiting& waiting) { take_waiting(self, node, waiting.ranks); },
      [self, node](const control::interrupted& one) { take_interrupted(self, node, one.signal); },
      [self, node](const control::copied& copied) { take_copied(self, node, copied.step); },
      [self](const control::welcome& welcome) { take_welcome(self, welcome); },
      [self](const control::refusal& refusal) { take_refusal(self, refusal.reason); },
      [self](const control::link_up&) { take_link_up(self); },
      [self](const control::who_waits& asks) { report_waiting(self, asks.lost); },
      [self](const control::end& end) { follow_end(self, end.status, end.failure); },
  };
}

/// The messages between workers and the coordinator or the recorder.
auto of_workers(supervisor_pointer self) {
  const auto& my = self->state;
  const auto tell_worker = [self](rank_id rank, auto&&... words) {
    self->send(worker_of(self->state, rank), std::forward<decltype(words)>(words)...);
  };
  return overloaded{
      [self, &my](const control::reached& reached) { self->send(my.ours.coordinator, reached_atom_v, reached.what); },
      [self, &my](const control::at_checkpoint& at) {
        self->send(my.ours.coordinator, checkpoint_atom_v, at.rank, at.step);
      },
      [self, &my](const control::restored& one) { self->send(my.ours.coordinator, restore_atom_v, one.rank); },
      [self, &my](const control::verified& one) {
        self->send(my.ours.coordinator, verify_atom_v, one.rank, one.step, one.digests);
      },
      [self, &my](const control::progress& made) {
        self->send(my.ours.recorder, progress_atom_v, made.rank, made.steps);
      },
      [self](const control::halted& halted) { take_halted(self, halted); },
      [=](const control::proceed& proceed) { tell_worker(proceed.rank, proceed_atom_v, proceed.steps); },
      [=](const control::assign& assign) { tell_worker(assign.rank, assign_atom_v, assign.what); },
      [self](const control::halt& halt) { halt_worker(self, halt.rank); },
      [=](const control::finish& finish) { tell_worker(finish.rank, finish_atom_v, finish.steps); },
      [=](const control::show& show) { tell_worker(show.rank, show_atom_v, show.step); },
      [=](const control::send_state& send) { tell_worker(send.rank, state_atom_v, send.number); },
  };
}

}  // namespace

void hear(supervisor_pointer self, std::uint32_t node, const control::message& what) {
  const auto nodes = of_nodes(self, node);
  const auto workers = of_workers(self);
  std::visit(
      [&](const auto& one) {
        if constexpr (std::is_invocable_v<decltype(nodes), decltype(one)>) {
          nodes(one);
        } else if constexpr (std::is_invocable_v<decltype(workers), decltype(one)>) {
          if (self->state.now == phase::running) workers(one);
        } else {
          static_assert(std::is_same_v<std::decay_t<decltype(one)>, control::introduction>,
                        "a control message has no handler");  // introductions go to the reception
        }
      },
      what);
}

}  // namespace troupe::supervision
