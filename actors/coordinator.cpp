#include "troupe/actors/coordinator.hpp"

#include "troupe/actors/rules/reduce.hpp"

#include <caf/all.hpp>

#include <algorithm>
#include <deque>
#include <map>
#include <stdexcept>
#include <utility>

namespace troupe {

namespace {

/// A step that every worker has reported, on its way to the recorder. They leave in order of steps.
struct report {
  record line;
  bool epoch_ends{false};
  bool evaluated{false};
  std::optional<snapshot> result;
  std::optional<evaluation> found;
  bool told{false};  ///< The recorder has heard of `found`.
};

struct coordinator_state {
  static inline const char* name = "coordinator";
  coordinator_options options;
  evaluator_actor evaluator;
  recorder_actor recorder;
  std::unique_ptr<lane> where;
  std::vector<directed_worker> workers;

  std::map<std::uint64_t, std::vector<std::optional<milestone>>> arriving;  ///< By step, then rank.
  std::map<std::uint64_t, std::map<rank_id, snapshot>> shown;               ///< By step, then rank.
  std::deque<report> reports;
  bool busy{false};                       ///< The first report is being averaged or evaluated.
  std::uint64_t last{0};                  ///< The step the run ends at.
  std::string status{"done"};             ///< What the `end` record will say.
  std::optional<std::uint64_t> complete;  ///< The last step reported by all.
  report latest;                          ///< The last report that left, its result included.
  bool halting{false}, finished{false};
  std::uint64_t halt_answers{0}, halt_step{0};

  caf::actor_clock::time_point first_step, interval_start;
  std::uint64_t granted{0};
  std::int64_t samples{0};  ///< Of the whole run.
  std::optional<double> train_loss, best_accuracy;
  std::uint64_t target_reached{0}, without_improvement{0};

  bool interrupted() const { return status == "interrupted"; }
  /// How many replicas make a result.
  std::size_t replicas() const { return options.replicas_agree ? 1 : options.workers; }
  bool may_stop_early() const { return options.target_accuracy || options.patience; }
};

using coordinator_pointer = coordinator_actor::stateful_pointer<coordinator_state>;

double seconds_between(caf::actor_clock::time_point from, caf::actor_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

/// Lets the workers run to the next evaluation; one further where no verdict can stop them, so that training goes on
/// while the evaluator works, with at most two snapshots waiting for it.
void grant(coordinator_pointer self, std::uint64_t evaluated) {
  auto& my = self->state;
  if (my.halting) return;
  auto until = my.options.when.next_evaluation(evaluated);
  if (!my.may_stop_early()) until = my.options.when.next_evaluation(until);
  if (my.complete == my.granted) my.interval_start = self->clock().now();  // they were waiting for this
  my.granted = until;
  for (const auto& worker : my.workers) self->send(worker, proceed_atom_v, until);
}

void finish(coordinator_pointer self) {
  auto& my = self->state;
  if (my.finished) return;
  my.finished = true;
  record end = my.latest.line;
  end.event = "end";
  end.status = my.status;
  end.train_loss = my.train_loss;
  end.samples_per_second =
      end.seconds > 0 ? std::optional{static_cast<double>(my.samples) / end.seconds} : std::nullopt;
  // No deadline: a disk, or a terminal that is scrolled back, may take its time; what is saved must not be lost to
  // that.
  self->request(my.recorder, caf::infinite, save_atom_v, *my.latest.result, std::move(end))
      .then([self](std::uint64_t) { self->quit(); },
            [self](const caf::error& why) { self->quit(make_error(errc::peer_lost, "recorder: " + describe(why))); });
}

/// Takes the verdict of an evaluation; returns whether the run ends here.
bool stops_early(coordinator_state& my, const evaluation& found) {
  const auto& options = my.options;
  if (options.target_accuracy) {
    my.target_reached = found.accuracy >= *options.target_accuracy ? my.target_reached + 1 : 0;
    if (my.target_reached >= options.target_hold) return true;
  }
  if (options.patience) {
    const auto better = !my.best_accuracy || found.accuracy > *my.best_accuracy;
    my.without_improvement = better ? 0 : my.without_improvement + 1;
    if (better) my.best_accuracy = found.accuracy;
    if (my.without_improvement >= *options.patience) return true;
  }
  return false;
}

void process(coordinator_pointer self);

/// Sends the first report to the recorder and draws the consequences.
void release(coordinator_pointer self) {
  auto& my = self->state;
  auto& first = my.reports.front();
  if (first.found && !first.told) {
    first.told = true;
    first.line.val_loss = first.found->loss;
    first.line.val_accuracy = first.found->accuracy;
    first.line.event = "evaluation";
    self->send(my.recorder, record_atom_v, first.line);
  }
  if (first.epoch_ends) {
    first.line.event = "epoch";
    self->send(my.recorder, record_atom_v, first.line);
  }
  my.latest = std::move(first);
  my.reports.pop_front();
  my.shown.erase(my.shown.begin(), my.shown.lower_bound(my.latest.line.step));  // its own may still be asked for
  if (my.latest.found) {
    if (!my.halting && stops_early(my, *my.latest.found) && my.latest.line.step != my.last) {
      my.status = "stopped_early";
      my.last = my.latest.line.step;
    } else {
      grant(self, my.latest.line.step);
    }
  }
  if (my.latest.line.step == my.last) finish(self);
}

/// Averages the replicas of the first report where they differ: the result is the mean with equal weights.
void average(coordinator_pointer self) {
  auto& my = self->state;
  auto& first = my.reports.front();
  const auto& replicas = my.shown.at(first.line.step);
  if (replicas.size() == 1) {
    first.result = replicas.begin()->second;
    return;
  }
  my.busy = true;
  std::vector<rules::weighted> summands;
  for (const auto& [rank, replica] : replicas) summands.push_back({replica.values, 1});
  then_on_lane(
      self, *my.where,
      [summands, origin = replicas.begin()->second.origin, shared = my.options.pool] {
        auto pool = shared;
        return snapshot{origin, rules::mean_in_order(summands, pool)};
      },
      [self](snapshot mean) {
        self->state.busy = false;
        self->state.reports.front().result = std::move(mean);
        process(self);
      });
}

void evaluate(coordinator_pointer self) {
  auto& my = self->state;
  my.busy = true;
  // No deadline of its own: an evaluation may take as long as the validation set is large, and an evaluator that dies
  // is heard of by whoever watches the troupe.
  self->request(my.evaluator, caf::infinite, evaluate_atom_v, *my.reports.front().result)
      .then(
          [self](const evaluation& found) {
            self->state.busy = false;
            self->state.reports.front().found = found;
            process(self);
          },
          [self](const caf::error& why) {
            self->state.busy = false;
            if (self->state.interrupted()) return process(self);
            self->quit(make_error(errc::peer_lost, "evaluator: " + describe(why)));
          });
}

/// Brings the reports on their way, one after the other.
void process(coordinator_pointer self) {
  auto& my = self->state;
  while (!my.busy && !my.finished && !my.reports.empty()) {
    auto& first = my.reports.front();
    const auto last = first.line.step == my.last;
    const auto evaluated = (first.evaluated || last) && !my.interrupted();
    if ((evaluated || last) && !first.result) {
      if (my.shown[first.line.step].size() < my.replicas()) return;  // still on its way
      average(self);
    } else if (evaluated && !first.found)
      evaluate(self);
    else
      release(self);
  }
}

/// Turns the milestones of a step, one from each worker, into a report.
void complete(coordinator_pointer self, std::vector<std::optional<milestone>>&& all) {
  auto& my = self->state;
  const auto now = self->clock().now();
  const auto step = all.front()->step;
  report made;
  double loss_sum = 0;
  std::int64_t samples = 0;
  for (auto& one : all) {
    loss_sum += one->loss_sum;
    samples += one->sample_count;
    made.line.bytes_sent += one->bytes_sent;
  }
  my.samples += samples;
  if (samples > 0) my.train_loss = loss_sum / static_cast<double>(samples);
  made.line.epoch = step / my.options.when.steps_per_epoch;
  made.line.step = made.line.updates = step;
  made.line.seconds = seconds_between(my.first_step, now);
  made.line.train_loss = samples > 0 ? my.train_loss : std::nullopt;
  if (const auto length = seconds_between(my.interval_start, now); length > 0 && samples > 0)
    made.line.samples_per_second = static_cast<double>(samples) / length;
  made.epoch_ends = my.options.when.epoch_ends_at(step);
  made.evaluated = my.options.when.evaluated_at(step);
  my.interval_start = now;
  my.complete = step;
  my.reports.push_back(std::move(made));
  process(self);
}

/// Ends the run before its time, at the first step that all workers can complete.
void halt(coordinator_pointer self, std::string status) {
  auto& my = self->state;
  if (my.finished) return;
  my.status = std::move(status);
  if (my.interrupted()) self->send(my.evaluator, cancel_atom_v);
  if (my.halting) return;
  my.halting = true;
  for (const auto& worker : my.workers) {
    self->request(worker, my.options.timeout, halt_atom_v)
        .then(
            [self](std::uint64_t begun) {
              auto& my = self->state;
              my.halt_step = std::max(my.halt_step, begun);
              if (++my.halt_answers < my.workers.size()) return;
              my.last = my.halt_step;
              if (my.complete == my.last && my.reports.empty()) {
                // All have stopped where they last reported; that report has left, and only its result may be owed.
                my.reports.push_back(std::move(my.latest));
                my.reports.front().epoch_ends = false;
              }
              for (const auto& worker : my.workers) self->send(worker, finish_atom_v, my.last);
              process(self);
            },
            [self](const caf::error& why) {
              self->quit(make_error(errc::peer_lost, "a worker did not halt: " + describe(why)));
            });
  }
}

coordinator_actor::behavior_type coordinator(coordinator_pointer self, coordinator_options options,
                                             evaluator_actor evaluator, recorder_actor recorder,
                                             std::shared_ptr<std::unique_ptr<lane>> where) {
  report_exceptions(self);
  auto& my = self->state;
  my.last = options.when.steps;
  my.options = std::move(options);
  my.evaluator = std::move(evaluator);
  my.recorder = std::move(recorder);
  my.where = std::move(*where);
  return {
      [self](wire_atom, const std::vector<directed_worker>& workers) {
        auto& my = self->state;
        my.workers = workers;
        my.first_step = my.interval_start = self->clock().now();
        record start;
        start.event = "start";
        self->send(my.recorder, record_atom_v, start);
        if (my.options.max_seconds) self->delayed_send(self, *my.options.max_seconds, tick_atom_v);
        grant(self, 0);
      },
      [self](reached_atom, const milestone& reached) {
        auto& my = self->state;
        auto& all = my.arriving.try_emplace(reached.step, my.options.workers).first->second;
        auto& slot = all.at(static_cast<std::size_t>(reached.rank));
        if (slot)
          throw std::logic_error("worker " + std::to_string(static_cast<std::uint32_t>(reached.rank)) +
                                 " reported step " + std::to_string(reached.step) + " twice");
        slot = reached;
        if (!std::all_of(all.begin(), all.end(), [](const auto& one) { return one.has_value(); })) return;
        auto whole = std::move(all);
        my.arriving.erase(reached.step);
        complete(self, std::move(whole));
      },
      [self](result_atom, const snapshot& replica) {
        auto& my = self->state;
        const auto step = replica.origin.step;
        if (!my.shown[step].emplace(replica.origin.sender, replica).second)
          throw std::logic_error("worker " + std::to_string(static_cast<std::uint32_t>(replica.origin.sender)) +
                                 " showed step " + std::to_string(step) + " twice");
        process(self);
      },
      [self](halt_atom) { halt(self, "interrupted"); },
      [self](tick_atom) { halt(self, "max_seconds"); },
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
