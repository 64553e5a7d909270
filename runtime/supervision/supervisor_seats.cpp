// Actors of exchanges that are in other programs: the run waits for them before it begins, and ends if one is lost.
#include "troupe/files/text.hpp"
#include "troupe/runtime/seats/seat.hpp"
#include "troupe/runtime/supervision/supervisor_state.hpp"
#include "troupe/runtime/topology/value.hpp"

#include <caf/all.hpp>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace troupe::supervision {

namespace {

using std::chrono::milliseconds;

/// Returns the actors that are missing, such as "actor median" or "actors median and trimmed", or "".
std::string missing_actors(const supervisor_state& my) {
  std::vector<std::string> names;
  for (const auto& seat : my.options.launch.seats)
    if (seat && !seat->is_taken()) names.push_back(seat->actor());
  if (names.empty()) return {};
  return (names.size() == 1 ? "actor " : "actors ") + text::listed(names, "and");
}

/// Runs `what` in the context of the supervisor.
void pass_on(const supervisor_actor& me, std::function<void()> what) {
  caf::anon_send(me, done_atom_v, completion{std::make_shared<std::function<void()>>(std::move(what))});
}

void take_seated(supervisor_pointer self, const std::string& actor) {
  auto& my = self->state;
  if (my.now == phase::ending) return;
  my.options.report("actor " + actor + " has attached");
  if (my.ready && missing_actors(my).empty()) begin_run(self, *std::exchange(my.ready, {}));
}

void lose_actor(supervisor_pointer self, const std::string& actor, const std::string& exchange, const std::string& why,
                bool during_run) {
  auto& my = self->state;
  if (my.now == phase::ending) return;
  const auto lost = "actor " + actor + " of " + exchange + " is lost: " + why;
  if (during_run) return fail_run(self, lost);
  my.options.report(lost + "; waiting for it to attach again");
}

/// Reports the missing actors at intervals, and fails the run when the time limit has passed.
void await_actors(supervisor_pointer self) {
  auto& my = self->state;
  if (!my.ready || my.now == phase::ending) return;
  const auto missing = missing_actors(my);
  const auto limit = my.run_plan().file.run.join_timeout;
  const auto left = limit - std::chrono::duration_cast<milliseconds>(self->clock().now() - my.ready_since);
  if (left.count() <= 0 && !missing.empty())
    return fail_run(self, missing + " did not attach within " + topology::print_duration(limit) +
                              " (run.join_timeout); start its program within this time, or set a longer one");
  if (!missing.empty()) my.options.report("waiting for " + missing + " to attach");
  const auto next = std::clamp<milliseconds>(left, milliseconds{100}, my.options.wait.interval);
  self->delayed_send(self, next, done_atom_v,
                     completion{std::make_shared<std::function<void()>>([self] { await_actors(self); })});
}

}  // namespace

void watch_seats(supervisor_pointer self) {
  const auto me = caf::actor_cast<supervisor_actor>(self);
  for (const auto& seat : self->state.options.launch.seats) {
    if (!seat) continue;
    const auto actor = seat->actor(), exchange = seat->exchange();
    const auto is_taken = seat->listen(
        {.taken = [=] { pass_on(me, [=] { take_seated(self, actor); }); },
         .lost = [=](const std::string& why,
                     bool during_run) { pass_on(me, [=] { lose_actor(self, actor, exchange, why, during_run); }); }});
    if (is_taken) take_seated(self, actor);
  }
}

bool all_seated(supervisor_pointer self, const std::vector<directed_worker>& workers) {
  auto& my = self->state;
  const auto& seats = my.options.launch.seats;
  const auto stays = [](const auto& seat) { return !seat || seat->begin(); };
  if (missing_actors(my).empty() && std::all_of(seats.begin(), seats.end(), stays)) return true;
  if (std::exchange(my.ready, workers)) return false;
  my.ready_since = self->clock().now();
  await_actors(self);
  return false;
}

}  // namespace troupe::supervision
