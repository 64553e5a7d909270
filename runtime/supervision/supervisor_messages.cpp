// Handles the control messages of other nodes. The links have checked that the sender of a message may send it, that
// its nodes exist, and that its worker belongs to the sender or to this node. Messages that do not fit the phase are
// ignored here.
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

/// On the first node: another node has received a signal. A node that leaves before all have joined can be replaced.
void take_interrupted(supervisor_pointer self, std::uint32_t node, int signal) {
  if (self->state.now == phase::joining) return forget_node(self->state, node);
  halt_run(self, signal);
}

/// On the first node: the node that keeps copies of checkpoints has written one.
void take_copied(supervisor_pointer self, std::uint32_t node, std::uint64_t step) {
  const auto& my = self->state;
  if (my.run_plan().keeps_copies(node)) self->send(my.ours.recorder, checkpoint_atom_v, step);
}

/// On another node: the first node rejects the introduction.
void take_refusal(supervisor_pointer self, const std::string& reason) {
  auto& my = self->state;
  if (my.now != phase::joining || my.welcomed) return;
  my.options.end->refusal = reason;
  end_run(self);
}

/// The messages between nodes.
auto of_nodes(supervisor_pointer self, std::uint32_t node) {
  return overloaded{
      [self, node](const control::linked&) { take_ready(self, node); },
      [self](const control::failed& failed) { take_failure(self, failed.why); },
      [self, node](const control::link_lost& lost) { lose_link_between(self, node, lost.node, lost.why); },
      [self, node](const control::waiting& waiting) { take_waiting(self, node, waiting.ranks); },
      [self, node](const control::interrupted& interrupted) { take_interrupted(self, node, interrupted.signal); },
      [self, node](const control::copied& copied) { take_copied(self, node, copied.step); },
      [self](const control::welcome& welcome) { take_welcome(self, welcome); },
      [self](const control::refusal& refusal) { take_refusal(self, refusal.reason); },
      [self](const control::link_up&) { take_link_up(self); },
      [self](const control::who_waits& asks) { report_waiting(self, asks.lost); },
      [self](const control::end& end) { follow_end(self, end.status, end.failure); },
  };
}

/// Forwards a message to the worker, the coordinator or the recorder.
template <class Message>
void pass_on(supervisor_pointer self, const Message& one) {
  const auto& ours = self->state.ours;
  if constexpr (control::is_in<Message>(control::to_worker{})) {
    const auto first = self->state.run_plan().nodes[self->state.me()].first_rank;
    self->send(ours.workers.at(static_cast<std::uint32_t>(one.rank) - first), one);
  } else if constexpr (control::is_in<Message>(control::to_recorder{})) {
    self->send(ours.recorder, one);
  } else {
    self->send(ours.coordinator, one);
  }
}

}  // namespace

void hear(supervisor_pointer self, std::uint32_t node, const control::message& what) {
  const auto handle = overloaded{
      of_nodes(self, node),
      [](const control::introduction&) {},  // these go to the reception
      [self](const auto& other) {
        if (self->state.now == phase::running) pass_on(self, other);
      },
  };
  std::visit(handle, what);
}

}  // namespace troupe::supervision
