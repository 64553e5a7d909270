// The phase `ending`: terminates the actors of this node and, on the first node, informs the other nodes.
#include "troupe/runtime/supervision/supervisor_state.hpp"

#include <caf/all.hpp>

#include <chrono>
#include <optional>
#include <utility>

namespace troupe::supervision {

namespace {

/// How long the other nodes may take to leave once the run is over.
constexpr std::chrono::milliseconds time_to_leave{1500};

/// How much earlier an actor may report a lost peer than the link reports the loss of that peer's node.
constexpr std::chrono::milliseconds time_to_hear_of_loss{300};

/// Ends the run after the end of an actor of this name, unless this node is already asking which ranks wait for a lost
/// node.
void end_because_of(supervisor_pointer self, const std::string& name) {
  const auto& my = self->state;
  if (my.diagnosing) return;
  if (my.is_first()) return end_run(self);
  fail_run(self, "node " + my.name_of(my.me()) + ", " + my.blamed.text.value_or(name + " has ended"));
}

/// Handles the end of an actor of the crew.
void handle_actor_down(supervisor_pointer self, const actor_label& who, const caf::error& reason) {
  auto& my = self->state;
  const auto& name = who.name;
  const auto failed = reason && reason != caf::exit_reason::kill;
  if (my.now == phase::ending) {
    // The end of the actor that failed on its own may be reported after the ends of those that lost it.
    auto& failure = my.options.end->failure;
    if (failed && failure && failure == my.blamed.text) {
      my.blamed.hear(name, reason);
      failure = my.blamed.text;
    }
    return quit_if_done(self);
  }
  // The coordinator ends when the run is complete; any other actor ends before that only if it failed.
  if (my.is_first() && !reason && who.id.what == role::coordinator) return end_run(self);
  if (my.diagnosing) return;
  if (failed) my.blamed.hear(name, reason);
  if (!my.blamed.for_loss) return end_because_of(self, name);
  // No actor of this node failed on its own. The link to a node that died may report its loss later than the memory
  // that the node shared.
  const auto end = [self, name] { end_because_of(self, name); };
  self->delayed_send(self, time_to_hear_of_loss, done_atom_v, completion{std::make_shared<std::function<void()>>(end)});
}

}  // namespace

void quit_if_done(supervisor_pointer self) {
  auto& my = self->state;
  bool reachable = false;
  my.for_each_node([&](std::uint32_t) { reachable = true; });
  if (my.now == phase::ending && my.alive.empty() && !reachable) self->quit();
}

void end_run(supervisor_pointer self) {
  auto& my = self->state;
  if (my.now == phase::ending) return;
  my.enter(phase::ending);
  auto& end = *my.options.end;
  if (!end.failure) end.failure = my.blamed.text;
  dismiss(my.ours);
  my.tell_all(control::end{end.status(), end.failure.value_or("")});
  my.leaves_at = self->clock().now() + time_to_leave;
  self->delayed_send(self, time_to_leave, tick_atom_v);
  quit_if_done(self);
}

void fail_run(supervisor_pointer self, std::string why) {
  auto& my = self->state;
  if (my.now == phase::ending) return;
  if (!my.is_first()) my.tell_first(control::failed{why});
  my.options.end->failure = std::move(why);
  // The first node decides and sends `end`, unless it is the one that is lost.
  if (my.is_first()) end_run(self);
}

void halt_run(supervisor_pointer self, int signal) {
  auto& my = self->state;
  if (my.now == phase::ending) return;
  my.options.end->signal = signal;
  if (my.is_first()) return my.now == phase::running ? self->send(my.ours.coordinator, halt_atom_v) : end_run(self);
  my.tell_first(control::interrupted{signal});
  if (my.now == phase::joining) end_run(self);  // the others may wait for another node in its place
}

void follow_end(supervisor_pointer self, std::int32_t status, const std::string& failure) {
  auto& end = *self->state.options.end;
  // The first node decides, even if an actor failed here after the run was complete.
  self->state.blamed = {};
  end.failure = failure.empty() ? std::nullopt : std::optional{failure};
  end.signal = status > 128 ? status - 128 : 0;  // the run may have been complete before our own signal
  end_run(self);
}

void handle_down(supervisor_pointer self, const caf::down_msg& down) {
  auto& alive = self->state.alive;
  const auto entry = alive.find(down.source);
  if (entry == alive.end()) return;
  const auto who = entry->second;
  alive.erase(entry);
  handle_actor_down(self, who, down.reason);
}

}  // namespace troupe::supervision
