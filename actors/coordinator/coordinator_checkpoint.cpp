// How the coordinator takes a checkpoint and continues from one.
#include "troupe/actors/coordinator/coordinator_state.hpp"
#include "troupe/actors/wire/actor_id.hpp"
#include "troupe/algorithms/messages/message_state.hpp"
#include "troupe/algorithms/support/assert.hpp"

#include <caf/all.hpp>

#include <algorithm>
#include <bit>
#include <utility>

namespace troupe {

namespace {

std::string worker_named(std::size_t rank) {
  return label_of_worker(static_cast<std::uint32_t>(rank)).name;
}

/// Returns the state of an actor from the checkpoint that is restored.
const state_dict& restored_state_of(const coordinator_state& my, const std::string& name) {
  const auto found = my.options.restored->actors.find(name);
  if (found == my.options.restored->actors.end())
    throw state_error("the checkpoint has no state of \"" + name + "\"; it belongs to another topology");
  return found->second;
}

/// Moves the barrier to the next checkpoint and lets the workers continue.
void continue_beyond_barrier(coordinator_pointer self) {
  auto& my = self->state;
  my.waiting.clear();
  my.barrier = my.options.when.next_checkpoint(my.barrier);
  let_continue(self);
}

/// Takes a checkpoint, now that all workers wait at the barrier. Skips it if the previous one is still being written.
void take_checkpoint_at_barrier(coordinator_pointer self) {
  auto& my = self->state;
  if (my.finished || my.halting()) return;
  if (my.writing) return continue_beyond_barrier(self);
  begin_checkpoint(self, my.barrier, [self] { continue_beyond_barrier(self); });
}

void take_state_of_server(coordinator_pointer self, const std::string& name, std::uint64_t number,
                          const state_dict& state) {
  auto& collection = self->state.collection;
  if (!collection.open || number != collection.number) return;
  collection.states.actors.emplace(name, state);
  collection.missing -= 1;
  write_checkpoint_if_complete(self);
}

/// Requests the states of all servers. The workers have stopped, so no message is on its way to a server.
void ask_servers(coordinator_pointer self) {
  auto& my = self->state;
  my.collection.missing = my.options.servers.size();
  constexpr std::uint32_t of_server = 1;  // rather than of a worker
  std::uint32_t index = 0;
  for (const auto& [name, server] : my.options.servers) {
    self->request(server, my.options.timeout, state_atom_v)
        .then(
            [self, name = name, index, number = my.collection.number](const state_dict& state) {
              const delivery arrival{.what = delivery::kind::state, .from = index, .part = of_server, .step = number};
              self->state.deliveries.admit_and_settle(arrival, [self, name, number, state](const delivery&) {
                take_state_of_server(self, name, number, state);
              });
            },
            [self, name = name](const caf::error& why) {
              self->quit(make_error(errc::peer_lost, name + ": " + describe(why)));
            });
    ++index;
  }
}

/// Returns whether all states have arrived, and all milestones that the workers reported before. Between nodes,
/// milestones take a different route than states and may arrive after them.
bool is_complete(const coordinator_state& my) {
  const auto& actors = my.collection.states.actors;
  if (actors.size() < my.workers.size() + my.options.servers.size()) return false;
  std::vector<std::uint64_t> reported;
  for (std::size_t rank = 0; rank < my.workers.size(); ++rank)
    reported.push_back(find_if_any<std::uint64_t>(actors.at(worker_named(rank)), "reported").value_or(0));
  return my.arrived.all_have_reached(reported);
}

/// Returns the largest number of steps that a restored worker has completed; with a queue, the number of steps of the
/// run that are assigned.
std::uint64_t furthest_step(const coordinator_state& my) {
  if (my.queue) return my.queue->steps_assigned();
  auto furthest = my.options.restored->step;
  for (std::size_t rank = 0; rank < my.workers.size(); ++rank)
    furthest = std::max(furthest, restored_state_of(my, worker_named(rank)).count("completed"));
  return furthest;
}

/// Returns the first barrier that no worker has passed and at which the workers have not all stopped yet.
std::uint64_t barrier_after(const coordinator_state& my) {
  const auto& when = my.options.when;
  if (!my.makes_checkpoints()) return std::numeric_limits<std::uint64_t>::max();
  const auto furthest = furthest_step(my);
  auto barrier = when.next_checkpoint(my.options.restored->step);
  while (barrier < furthest) barrier = when.next_checkpoint(barrier);
  return barrier;
}

/// Continues a run that is restored.
void continue_restored(coordinator_pointer self) {
  auto& my = self->state;
  const auto now = self->clock().now();
  const auto& before = restored_state_of(my, "coordinator");
  my.restore(before, now);
  my.barrier = barrier_after(my);
  const auto every = find_if_any<std::uint64_t>(before, "evaluate_every");
  if (every && every != my.options.when.evaluate_every) my.passed = furthest_step(my);
  auto line = my.totals.line_at(my.options.restored->step, now);
  if (!my.options.holders.empty()) line.updates = my.latest.line.updates;
  line.event = "resume";
  self->send(my.recorder, record_atom_v, line);
  if (my.best) self->send(my.recorder, keep_atom_v, *my.best);
  my.options.restored.reset();
  if (const auto& changes = my.options.lr_over_time.changes)
    for (const auto& change : changes->all()) announce(self, change);
  if (my.options.max_seconds) {
    const std::chrono::duration<double> elapsed{line.seconds};
    const auto left = *my.options.max_seconds - std::chrono::duration_cast<std::chrono::milliseconds>(elapsed);
    self->delayed_send(self, std::max(left, std::chrono::milliseconds{0}), tick_atom_v);
  }
  if (my.queue)
    tell_all(self, [&my](rank_id rank) { return control::proceed{rank, my.queue->steps_assigned_to(rank)}; });
  let_continue(self);
  process(self);
  for (const auto& order : std::exchange(my.orders_waiting, {})) self->send(self, order);
  for (; my.interrupts_waiting > 0; --my.interrupts_waiting) self->send(self, halt_atom_v);
  for (; my.time_limits_waiting > 0; --my.time_limits_waiting) self->send(self, tick_atom_v);
}

}  // namespace

void take_arrival(coordinator_pointer self, rank_id worker, std::uint64_t step) {
  auto& my = self->state;
  if (step != my.barrier || my.collection.open || !my.waiting.insert(worker).second) return;
  if (my.waiting.size() == my.workers.size()) take_checkpoint_at_barrier(self);
}

void look_for_barrier(coordinator_pointer self) {
  auto& my = self->state;
  constexpr auto never = std::numeric_limits<std::uint64_t>::max();
  if (my.barrier == never || my.collection.open || !my.queue->is_idle_at(my.barrier)) return;
  take_checkpoint_at_barrier(self);
}

void begin_checkpoint(coordinator_pointer self, std::uint64_t step, std::function<void()> then,
                      std::function<void(bool)> written) {
  auto& my = self->state;
  TROUPE_ASSERT(!my.collection.open, "COORDINATOR-3: one checkpoint at a time");
  const auto number = my.collection.number + 1;
  my.collection = {.number = number,
                   .open = true,
                   .missing = my.workers.size(),
                   .states = {step, {}},
                   .then = std::move(then),
                   .written = std::move(written)};
  tell_all(self, [number](rank_id rank) { return control::send_state{rank, number}; });
}

void take_state(coordinator_pointer self, rank_id worker, std::uint64_t number, const state_dict& state) {
  auto& collection = self->state.collection;
  if (!collection.open || number != collection.number) return;
  collection.states.actors.emplace(worker_named(static_cast<std::size_t>(worker)), state);
  if (--collection.missing > 0) return;
  ask_servers(self);
  write_checkpoint_if_complete(self);
}

void write_checkpoint_if_complete(coordinator_pointer self) {
  auto& my = self->state;
  auto& collection = my.collection;
  if (!collection.open || my.work_on_first == report_work::assembling || my.finished || !is_complete(my)) return;
  collection.states.actors.emplace("coordinator", my.state(self->clock().now()));
  collection.open = false;
  my.writing = true;
  // No deadline: a slow disk must not cost the run.
  self->request(my.recorder, caf::infinite, checkpoint_atom_v, std::exchange(collection.states, {}))
      .then(
          [self, written = std::exchange(collection.written, {})](bool succeeded) {
            self->state.deliveries.admit_and_settle({.what = delivery::kind::written},
                                                    [self, written, succeeded](const delivery&) {
                                                      self->state.writing = false;
                                                      if (written) written(succeeded);
                                                    });
          },
          [self](const caf::error& why) { self->quit(make_error(errc::peer_lost, "recorder: " + describe(why))); });
  std::exchange(collection.then, {})();
  carry_out_orders(self);
}

void restore_run(coordinator_pointer self) {
  auto& my = self->state;
  my.restoring = my.workers.size() + my.options.servers.size();
  for (const auto& [name, server] : my.options.servers)
    self->request(server, my.options.timeout, restore_atom_v, restored_state_of(my, name))
        .then([self] { take_restored(self); },
              [self, name = name](const caf::error& why) {
                self->quit(make_error(errc::peer_lost, name + ": " + describe(why)));
              });
  for (std::size_t rank = 0; rank < my.workers.size(); ++rank)
    self->send(my.workers[rank], restore_atom_v, restored_state_of(my, worker_named(rank)));
}

void take_restored(coordinator_pointer self) {
  if (--self->state.restoring == 0) continue_restored(self);
}

state_dict coordinator_state::state(rules::run_clock::time_point now) const {
  state_dict saved;
  saved.put_all("arrived", arrived.state());
  saved.put_all("totals", totals.state(now));
  saved.put_all("verdicts", verdicts.state());
  if (queue) saved.put_all("queue", queue->state());
  put_if_any(saved, "asked", asked);
  saved.put_count("judged", judged);
  saved.put_count("evaluate_every", options.when.evaluate_every);
  auto pending = reports;
  for (auto& report : pending) report.line.val_accuracy_workers.clear();  // all replicas are evaluated again
  put_list(saved, "reports", pending);
  saved.put_all("latest", state_of(latest));
  put_if_any(saved, "latest_evaluation", latest.found);
  put_if_any(saved, "best", best);
  if (const auto& changes = options.lr_over_time.changes) {
    std::vector<std::uint64_t> rates{std::bit_cast<std::uint64_t>(options.lr)};
    for (const auto& change : changes->all())
      rates.insert(rates.end(), {change.from, std::bit_cast<std::uint64_t>(change.lr)});
    if (changes->any()) saved.put_counts("rates", rates);
  }
  return saved;
}

void coordinator_state::restore(const state_dict& from, rules::run_clock::time_point now) {
  arrived.restore(from.all("arrived"));
  totals.restore(from.all("totals"), now);
  verdicts.restore(from.all("verdicts"));
  if (queue) queue->restore(from.all("queue"));
  asked = find_if_any<std::uint64_t>(from, "asked");
  judged = from.count("judged");
  const auto pending = list_of<rules::report>(from, "reports");
  reports = {pending.begin(), pending.end()};
  for (auto& report : reports)
    if (options.evaluates_replicas && report.result && report.result->values.numel() == options.layout.total)
      for (const auto& [rank, replica] : arrived.shown(report.line.step)) report.replicas.push_back(replica);
  troupe::restore(latest, from.all("latest"));
  latest.found = find_if_any<evaluation>(from, "latest_evaluation");
  latest.recorded = latest.found.has_value();
  best = find_if_any<snapshot>(from, "best");
  if (!options.lr_over_time.changes || !from.has("rates")) return;
  const auto rates = from.counts("rates");
  if (rates.empty() || std::bit_cast<double>(rates[0]) != options.lr) return;  // optimizer.lr was changed since then
  for (std::size_t i = 1; i + 1 < rates.size(); i += 2)
    options.lr_over_time.changes->set({rates[i], std::bit_cast<double>(rates[i + 1])});
}

}  // namespace troupe
