#include "troupe/actors/coordinator/coordinator.hpp"

#include "troupe/actors/coordinator/coordinator_state.hpp"
#include "troupe/algorithms/support/assert.hpp"

#include <caf/all.hpp>

#include <algorithm>
#include <bit>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace troupe {

namespace {

/// Assigns batches up to the step that evaluations and checkpoints allow.
void hand_out(coordinator_pointer self) {
  auto& my = self->state;
  if (my.halting() || my.stands_still()) return;
  for (const auto& [rank, more] : my.queue->hand_out(std::min(my.allowed, my.barrier)))
    self->send(my.workers.at(static_cast<std::size_t>(rank)), control::assign{rank, more});
}

void finish(coordinator_pointer self) {
  auto& my = self->state;
  if (my.finished) return;
  my.reports.clear();   // reports of steps after the end, if an evaluation has stopped a run that was continued
  complete_halt(self);  // the run may have ended before all workers have answered
  my.finished = true;
  refuse_orders(self);
  auto end = my.totals.end_of(my.latest.line, my.status, my.stopped_by);
  // No deadline: a slow disk, or a terminal that is scrolled back, must not cost the result.
  self->request(my.recorder, caf::infinite, save_atom_v, *my.latest.result, std::move(end))
      .then([self](std::uint64_t) { self->quit(); },
            [self](const caf::error& why) { self->quit(make_error(errc::peer_lost, "recorder: " + describe(why))); });
}

/// Sends the evaluation of the first report to the recorder, once, and returns the verdict.
rules::verdicts::verdict record_evaluation(coordinator_pointer self) {
  auto& my = self->state;
  auto& first = my.reports.front();
  if (!first.found || std::exchange(first.recorded, true)) return {};
  first.line.val_loss = first.found->loss;
  first.line.val_accuracy = first.found->accuracy;
  first.line.val_top_k_accuracy = first.found->top_k_accuracy;
  first.line.event = "evaluation";
  self->send(my.recorder, record_atom_v, first.line);
  const auto verdict = my.verdicts.on(*first.found);
  if (verdict.best && my.makes_checkpoints()) my.best = first.result;
  if (verdict.best) self->send(my.recorder, keep_atom_v, *first.result);
  return verdict;
}

/// Sends the lines of the first report to the recorder and acts on its verdict.
void write(coordinator_pointer self) {
  auto& my = self->state;
  auto& first = my.reports.front();
  if (!first.replicas.empty()) first.line.val_accuracy_workers.clear();  // interrupted before all were evaluated
  const auto verdict = record_evaluation(self);
  if (first.epoch_ends) {
    auto line = first.line;
    line.event = "epoch";
    line.epoch_seconds = first.epoch_seconds;
    line.epoch_train_loss = first.epoch_train_loss;
    self->send(my.recorder, record_atom_v, line);
  }
  my.latest = std::move(first);
  my.reports.pop_front();
  my.arrived.forget_before(my.latest.line.step);
  if (my.latest.found) {
    if (!my.halting() && !verdict.stopped_by.empty() && !my.is_last(my.latest)) {
      my.status = "stopped_early";
      my.stopped_by = verdict.stopped_by;
      my.last = my.latest.line.step;
    } else {
      my.judged = my.latest.line.step;
      if (!my.halting()) my.totals.clock.release(self->clock().now());
      if (!my.halting()) let_continue(self);
    }
  }
  if (my.is_last(my.latest)) finish(self);
}

/// Adds the report of `step` to those that will be written.
void add_report(coordinator_pointer self, std::uint64_t step, const std::vector<milestone>& all) {
  auto& my = self->state;
  const auto now = self->clock().now();
  if (!my.reports.empty() && my.reports.back().line.step > step)  // COORDINATOR-1
    throw std::logic_error("a worker ended before a step that it had reported");
  my.reports.push_back(my.totals.report_of(step, all, now));
  if (step == my.allowed && step != my.last) my.totals.clock.hold(now);  // until there is a verdict
}

/// Requests the replicas from which the result of `step` is assembled.
void ask_to_show(coordinator_pointer self, std::uint64_t step) {
  auto& my = self->state;
  if (my.options.replicas == 0 || my.asked == step) return;
  my.asked = step;
  tell_all(self, [step](rank_id rank) { return control::show{rank, step}; });
}

/// Adds the reports of all milestones that the workers of a queue have reached together.
void report_queue(coordinator_pointer self) {
  auto& my = self->state;
  for (;;) {
    const auto step = my.options.when.next_milestone(std::max(my.totals.reported().value_or(0), my.passed));
    if (my.totals.reported() == step || my.queue->steps() < step) return;
    add_report(self, step, my.arrived.take_queued());
    if (my.reports.back().evaluated) ask_to_show(self, step);
    process(self);
  }
}

/// Puts back the report that was written last. All workers have stopped where they last reported, so only the result of
/// that step may still be missing.
void repeat_latest(coordinator_state& my) {
  my.reports.push_back(std::move(my.latest));
  my.reports.back().epoch_ends = false;
}

/// Requests the replicas of the last result from the workers of a queue, after all of them have ended. Workers that
/// have already answered for this step are asked again, because they may have continued since.
void ask_for_last(coordinator_pointer self) {
  auto& my = self->state;
  if (my.asked != my.last) return ask_to_show(self, my.last);
  for (const auto rank : my.arrived.withdraw(my.last))
    self->send(my.workers.at(static_cast<std::size_t>(rank)), control::show{rank, my.last});
}

/// Adds the last report once all workers have ended, each at a step of its own. The report contains the milestones of
/// steps that only some of them have reported.
void close(coordinator_pointer self) {
  auto& my = self->state;
  const auto rest = my.arrived.take_rest();
  if (!rest.empty() || (my.queue && my.totals.reported() != my.last)) {
    const auto is_reported = my.totals.reported() == my.last;
    add_report(self, my.last, rest);
    if (is_reported) my.reports.back().epoch_ends = false;
  } else if (my.reports.empty()) {
    repeat_latest(my);
  }
  my.reports.back().ends = true;
  if (my.queue) ask_for_last(self);
  process(self);
}

/// Closes the run if all workers, which end at different steps, have ended.
void close_if_all_ended(coordinator_pointer self) {
  const auto& my = self->state;
  if (my.ending != early_end::saving && my.arrived.all_have_reached(my.ends)) close(self);
}

/// Takes a milestone of a worker that has batches of its own.
void take_own(coordinator_pointer self, const milestone& reached) {
  auto& my = self->state;
  my.arrived.take(reached);
  my.totals.count_arrival(reached);
  if (my.ends_apart() && my.ending != early_end::saving && reached.step >= my.last) return close_if_all_ended(self);
  const auto milestones = my.arrived.complete(reached.step);
  if (!milestones) return;
  add_report(self, reached.step, *milestones);
  process(self);
}

/// Takes a milestone of a worker that draws from the queue.
void take_of_queue(coordinator_pointer self, const milestone& reached) {
  auto& my = self->state;
  my.arrived.take_of_queue(reached);
  my.totals.count_arrival(reached);
  my.queue->note(reached.rank, reached.step);
  report_queue(self);
  if (my.ends_apart()) return close_if_all_ended(self);
  hand_out(self);
  look_for_barrier(self);
}

/// Lets the halted workers end at the steps in coordinator_state::ends.
void end_run(coordinator_pointer self) {
  auto& my = self->state;
  my.ending = early_end::decided;
  complete_halt(self);
  tell_all(self, [&my](rank_id rank) { return control::finish{rank, my.ends[static_cast<std::size_t>(rank)]}; });
  if (my.ends_apart()) return close_if_all_ended(self);
  if (my.totals.reported() == my.last && my.reports.empty()) repeat_latest(my);
  process(self);
}

/// Chooses the step at which the run ends, after every worker has reported how many steps it has started. If the run
/// makes checkpoints, makes one of that step first, before ending changes the state of the run.
void end_early(coordinator_pointer self) {
  auto& my = self->state;
  const auto [least, most] = std::minmax_element(my.ends.begin(), my.ends.end());
  my.last = my.options.in_lockstep ? *most : *least;
  if (my.queue) my.last = std::accumulate(my.ends.begin(), my.ends.end(), std::uint64_t{0}) / my.options.workers;
  if (my.last == my.options.when.steps && my.status == "max_seconds") my.status = "done";  // nothing was cut short
  if (my.options.in_lockstep) std::fill(my.ends.begin(), my.ends.end(), my.last);
  if (my.ending != early_end::saving || my.last >= my.options.when.steps) return end_run(self);
  tell_all(self, [&my](rank_id rank) { return control::proceed{rank, my.ends[static_cast<std::size_t>(rank)]}; });
  begin_checkpoint(self, my.last, [self] { end_run(self); });
}

}  // namespace

void let_continue(coordinator_pointer self) {
  auto& my = self->state;
  // Up to the next evaluation or, unless the workers wait for verdicts, the one after that: training continues during
  // an evaluation, with at most two snapshots waiting for the evaluator.
  const auto pending =
      std::any_of(my.reports.begin(), my.reports.end(), [](const auto& report) { return report.evaluated; });
  my.allowed = my.options.when.next_evaluation(pending ? my.judged : std::max(my.judged, my.passed));
  if (!my.waits_for_verdicts()) my.allowed = my.options.when.next_evaluation(my.allowed);
  if (my.stands_still()) return;
  if (my.queue) return hand_out(self);
  tell_all(self, [until = std::min(my.allowed, my.barrier)](rank_id rank) { return control::proceed{rank, until}; });
}

void process(coordinator_pointer self) {
  auto& my = self->state;
  while (my.work_on_first == report_work::none && !my.finished && my.ending != early_end::saving &&
         !my.reports.empty()) {
    auto& first = my.reports.front();
    const auto last = my.is_last(first);
    const auto evaluated = (first.evaluated || last) && !my.interrupted();
    switch (rules::next_action(first, {.evaluated = evaluated,
                                       .whole = evaluated || last,
                                       .from_servers = !my.options.holders.empty(),
                                       .elements = my.options.layout.total})) {
      case rules::report_action::assemble:
        if (!begin_result(self, evaluated || last)) return;
        break;
      case rules::report_action::evaluate_result:
        evaluate(self, *first.result);
        break;
      case rules::report_action::evaluate_replica:
        evaluate(self, first.replicas.front());
        break;
      case rules::report_action::write:
        write(self);
        break;
    }
  }
}

void halt(coordinator_pointer self, std::string status) {
  auto& my = self->state;
  if (my.finished) return;
  my.status = std::move(status);
  if (my.interrupted() && !my.deliveries.replays()) self->send(my.evaluator, cancel_atom_v);
  if (my.halting()) return;
  my.ending = my.makes_checkpoints() ? early_end::saving : early_end::halting;
  refuse_orders(self);
  my.collection.open = false;
  my.ends.resize(my.workers.size());
  tell_all(self, [&my](rank_id rank) {
    my.to_answer_halt.insert(rank);
    return control::halt{rank};
  });
  expect(self, "halt", [self] { return self->state.to_answer_halt; });
}

void expect(coordinator_pointer self, const std::string& what, std::function<std::set<rank_id>()> silent) {
  const auto give_up = [self, what, silent = std::move(silent)] {
    const auto missing = silent();
    if (missing.empty()) return;
    const auto first = label_of_worker(static_cast<std::uint32_t>(*missing.begin())).name;
    self->quit(make_error(errc::peer_lost, first + " did not " + what + " within run.timeout"));
  };
  self->delayed_send(self, self->state.options.timeout, done_atom_v,
                     completion{std::make_shared<std::function<void()>>(give_up)});
}

namespace {

/// Handles a message when it is due. `from` is the worker that sent it, or 0 if no worker did.
template <class Work>
void admit(coordinator_pointer self, delivery::kind what, rank_id from, std::uint64_t step, Work work) {
  self->state.deliveries.admit_and_settle({.what = what, .from = static_cast<std::uint32_t>(from), .step = step},
                                          [work = std::move(work)](const delivery&) { work(); });
}

/// Ends the run and returns true if a worker reports more steps than it can have started. Another node may send
/// anything.
template <class Answer>
bool quits_because_of(coordinator_pointer self, const Answer& answer) {
  const auto& my = self->state;
  const auto most_of_each = my.queue ? my.workers.size() : 1;
  if (answer.steps / most_of_each <= my.options.when.steps) return false;
  self->quit(make_error(errc::mismatch, label_of_worker(static_cast<std::uint32_t>(answer.rank)).name + " reports " +
                                            std::to_string(answer.steps) + " steps, which are more than the run has"));
  return true;
}

/// Takes the answer of a worker that was told to halt.
void take_halted(coordinator_pointer self, const control::halted& answer) {
  auto& my = self->state;
  if (my.to_answer_halt.erase(answer.rank) == 0) return;  // another node may send it unasked
  if (quits_because_of(self, answer)) return;
  admit(self, delivery::kind::halted, answer.rank, answer.steps, [self, answer] {
    auto& my = self->state;
    my.ends[static_cast<std::size_t>(answer.rank)] = answer.steps;
    if (++my.halt_answers == my.workers.size()) end_early(self);
  });
}

/// Returns the delivery of a replica. If its worker draws from the queue, the version of the replica is the number of
/// steps that the worker has completed.
delivery delivery_of(const snapshot& replica) {
  return {.what = delivery::kind::replica,
          .from = static_cast<std::uint32_t>(replica.origin.sender),
          .part = static_cast<std::uint32_t>(replica.taken),
          .step = replica.origin.step,
          .at = replica.origin.version};
}

std::vector<std::string> names_of(const std::vector<models::flat_entry>& tensors) {
  std::vector<std::string> names;
  for (const auto& tensor : tensors) names.push_back(tensor.name);
  return names;
}

coordinator_actor::behavior_type coordinator(coordinator_pointer self, coordinator_options options,
                                             evaluator_actor evaluator, recorder_actor recorder,
                                             std::shared_ptr<std::unique_ptr<lane>> where) {
  report_exceptions(self);
  auto& my = self->state;
  my.last = options.when.steps;
  my.barrier = options.when.next_checkpoint(0);
  my.arrived = rules::arrivals{options.workers};
  my.replicas = rules::agreement{options.workers, names_of(options.layout.parameters)};
  my.totals = rules::run_totals{
      {.when = options.when, .workers = options.workers, .lr = options.lr, .lr_over_time = options.lr_over_time}};
  my.options = std::move(options);
  my.deliveries = intake{my.options.deliveries};
  my.evaluator = std::move(evaluator);
  my.recorder = std::move(recorder);
  my.where = std::move(*where);
  my.verdicts = rules::verdicts{my.options.stop};
  if (my.options.batches_at_once > 0)
    my.queue.emplace(my.options.workers, my.options.when, my.options.batches_at_once, my.options.block);
  return {
      [self](wire_atom, const std::vector<directed_worker>& workers) {
        auto& my = self->state;
        my.workers = workers;
        if (const auto& changes = my.options.lr_over_time.changes) changes->clear();
        if (my.options.restored) return restore_run(self);
        my.totals.clock.begin(self->clock().now());
        record start;
        start.event = "start";
        self->send(my.recorder, record_atom_v, start);
        if (my.options.max_seconds) self->delayed_send(self, *my.options.max_seconds, tick_atom_v);
        let_continue(self);
        if (my.queue) report_queue(self);  // a run of no steps is complete
      },
      [self](const milestone& reached) {
        admit(self, delivery::kind::milestone, reached.rank, reached.step, [self, reached] {
          self->state.queue ? take_of_queue(self, reached) : take_own(self, reached);
          write_checkpoint_if_complete(self);
        });
      },
      [self](result_atom, const snapshot& replica) {
        self->state.deliveries.admit_and_settle(delivery_of(replica), [self, replica](const delivery&) {
          self->state.arrived.take(replica);
          process(self);
        });
      },
      [self](state_atom, rank_id worker, std::uint64_t number, const state_dict& state) {
        admit(self, delivery::kind::state, worker, number,
              [self, worker, number, state] { take_state(self, worker, number, state); });
      },
      [self](const control::at_checkpoint& at) {
        admit(self, delivery::kind::barrier, at.rank, at.step, [self, at] { take_arrival(self, at.rank, at.step); });
      },
      [self](const control::restored&) { take_restored(self); },
      [self](const control::verified& seen) {
        admit(self, delivery::kind::digests, seen.rank, seen.step, [self, seen] {
          if (const auto difference = self->state.replicas.take(seen.rank, seen.step, seen.digests))
            self->quit(make_error(errc::failed, *difference));
        });
      },
      [self](const control::halted& answer) { take_halted(self, answer); },
      [self](const control::held& answer) {
        if (quits_because_of(self, answer)) return;
        admit(self, delivery::kind::held, answer.rank, answer.steps, [self, answer] { take_held(self, answer); });
      },
      [self](const control::stopped& answer) {
        admit(self, delivery::kind::stopped, answer.rank, answer.steps, [self, answer] { take_stopped(self, answer); });
      },
      [self](halt_atom) {
        auto& my = self->state;
        // Handled after the run is restored, so that a replay repeats what preceded the interrupt.
        if (my.options.restored) return void(++my.interrupts_waiting);
        admit(self, delivery::kind::interrupt, rank_id{}, 0, [self] { halt(self, "interrupted"); });
      },
      [self](tick_atom) {
        auto& my = self->state;
        if (my.options.restored) return void(++my.time_limits_waiting);
        admit(self, delivery::kind::time_limit, rank_id{}, 0, [self] {
          if (!self->state.halting()) halt(self, "max_seconds");  // otherwise it is already ending for another reason
        });
      },
      [self](const steering_order& order) {
        auto& my = self->state;
        if (my.options.restored) return my.orders_waiting.push_back(order);
        const delivery what{.what = delivery::kind::order,
                            .part = static_cast<std::uint32_t>(order.what),
                            .step = order.step,
                            .at = std::bit_cast<std::uint64_t>(order.lr)};
        my.deliveries.admit_and_settle(what, [self, order](const delivery&) { take_order(self, order); });
      },
      [](done_atom, const completion& done) { (*done.run)(); },
  };
}

}  // namespace

coordinator_actor spawn_coordinator(caf::actor_system& system, coordinator_options options, evaluator_actor evaluator,
                                    recorder_actor recorder, std::unique_ptr<lane> where) {
  return system.spawn(coordinator, std::move(options), std::move(evaluator), std::move(recorder),
                      std::make_shared<std::unique_ptr<lane>>(std::move(where)));
}

}  // namespace troupe
