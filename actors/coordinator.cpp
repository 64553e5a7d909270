#include "troupe/actors/coordinator.hpp"

#include "troupe/actors/rules/pieces.hpp"
#include "troupe/actors/rules/reduce.hpp"
#include "troupe/actors/rules/result.hpp"
#include "troupe/actors/rules/run_clock.hpp"
#include "troupe/actors/rules/staleness.hpp"
#include "troupe/actors/rules/training_tally.hpp"
#include "troupe/actors/rules/work_queue.hpp"

#include <ATen/ATen.h>
#include <caf/all.hpp>

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
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
  std::deque<snapshot> replicas;           ///< Replicas still to be evaluated, by rank.
  bool ends{false};                        ///< The last one of a run whose workers end apart.
  bool told{false};                        ///< The recorder has heard of `found`.
  double epoch_seconds{0};                 ///< Where an epoch ends.
  std::optional<double> epoch_train_loss;  ///< Where an epoch ends.
};

struct coordinator_state {
  static inline const char* name = "coordinator";
  coordinator_options options;
  evaluator_actor evaluator;
  recorder_actor recorder;
  std::unique_ptr<lane> where;
  std::vector<directed_worker> workers;

  std::optional<rules::work_queue> queue;  ///< Queue of batches; empty if each worker has its own.
  std::vector<milestone> unreported;       ///< Milestones since the last report. Used only with a queue.
  std::optional<std::uint64_t> asked;      ///< Last step for which `show` was sent. Used only with a queue.
  std::map<std::uint64_t, std::map<rank_id, milestone>> arriving;  ///< By step, then rank.
  std::map<std::uint64_t, std::map<rank_id, snapshot>> shown;      ///< By step, then rank.
  std::map<std::uint64_t, rules::replicas_by_rank> contributed;  ///< See snapshot::before_exchange; by step, then rank.
  std::optional<double> most_distant;                            ///< The largest consensus distance before an exchange.
  std::deque<report> reports;
  bool busy{false};                             ///< Whether the first report is being averaged or evaluated.
  std::uint64_t last{0};                        ///< The step the run ends at.
  std::string status{"done"};                   ///< What the `end` record will say.
  std::optional<std::uint64_t> complete;        ///< The last step reported by all.
  report latest;                                ///< The last report that left, its result included.
  std::vector<std::uint64_t> reported;          ///< By rank: the last step.
  std::map<rank_id, std::uint64_t> bytes_sent;  ///< By rank, so far.
  staleness_tally staleness;                    ///< As last reported.
  bool halting{false}, finished{false};
  std::uint64_t halt_answers{0};
  std::vector<std::uint64_t> begun;  ///< By rank: the steps that a halted worker has begun; then, where it ends.

  rules::run_clock clock;
  std::uint64_t granted{0};
  rules::training_tally of_run, of_epoch;    ///< Since the first step, and since the last end of an epoch.
  double interval_start{0}, epoch_start{0};  ///< Training time of the last report, and of the last end of an epoch.
  double data_wait{0}, computing{0};         ///< Seconds of all computes, of the whole run.
  std::optional<double> train_loss, train_accuracy;
  rules::verdicts verdicts;

  bool interrupted() const { return status == "interrupted"; }
  bool ends_apart() const { return halting && !options.in_lockstep && halt_answers == workers.size(); }
  bool is_last(const report& one) const { return ends_apart() ? one.ends : one.line.step == last; }
  bool waits_for_verdicts() const { return options.stop.any() || options.pauses; }
};

using coordinator_pointer = coordinator_actor::stateful_pointer<coordinator_state>;

std::optional<double> share_of(double part, double whole) {
  return whole > 0 ? std::optional{part / whole} : std::nullopt;
}

/// Assigns batches up to the granted step.
void hand_out(coordinator_pointer self) {
  auto& my = self->state;
  if (my.halting) return;
  for (const auto& [rank, more] : my.queue->hand_out(my.granted))
    self->send(my.workers.at(static_cast<std::size_t>(rank)), assign_atom_v, more);
}

/// Lets the workers run to the next evaluation; one further unless they wait for its verdict, so that training goes on
/// while the evaluator works, with at most two snapshots waiting for it.
void grant(coordinator_pointer self, std::uint64_t evaluated) {
  auto& my = self->state;
  if (my.halting) return;
  auto until = my.options.when.next_evaluation(evaluated);
  if (!my.waits_for_verdicts()) until = my.options.when.next_evaluation(until);
  my.clock.release(self->clock().now());
  my.granted = until;
  if (my.queue) return hand_out(self);
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
  end.train_accuracy = my.train_accuracy;
  if (my.staleness.applied > 0) {
    end.staleness_mean = rules::mean(my.staleness);
    end.staleness_max = static_cast<double>(my.staleness.most);
    end.staleness_counts = my.staleness.counts;
  }
  end.consensus_distance_max = my.most_distant;
  end.data_wait = share_of(my.data_wait, my.computing);
  end.samples_per_second = my.of_run.rate(end.train_seconds);
  // No deadline: a disk, or a terminal that is scrolled back, may take its time; what is saved must not be lost to
  // that.
  self->request(my.recorder, caf::infinite, save_atom_v, *my.latest.result, std::move(end))
      .then([self](std::uint64_t) { self->quit(); },
            [self](const caf::error& why) { self->quit(make_error(errc::peer_lost, "recorder: " + describe(why))); });
}

void process(coordinator_pointer self);

/// Sends the first report to the recorder and draws the consequences.
void release(coordinator_pointer self) {
  auto& my = self->state;
  auto& first = my.reports.front();
  if (!first.replicas.empty()) first.line.val_accuracy_workers.clear();  // interrupted before all were evaluated
  rules::verdicts::verdict verdict;
  if (first.found && !first.told) {
    first.told = true;
    first.line.val_loss = first.found->loss;
    first.line.val_accuracy = first.found->accuracy;
    first.line.val_top_k_accuracy = first.found->top_k_accuracy;
    first.line.event = "evaluation";
    self->send(my.recorder, record_atom_v, first.line);
    verdict = my.verdicts.on(*first.found);
    if (verdict.best) self->send(my.recorder, keep_atom_v, *first.result);
  }
  if (first.epoch_ends) {
    auto line = first.line;
    line.event = "epoch";
    line.epoch_seconds = first.epoch_seconds;
    line.epoch_train_loss = first.epoch_train_loss;
    self->send(my.recorder, record_atom_v, line);
  }
  my.latest = std::move(first);
  my.reports.pop_front();
  my.shown.erase(my.shown.begin(), my.shown.lower_bound(my.latest.line.step));  // its own may still be asked for
  my.contributed.erase(my.contributed.begin(), my.contributed.upper_bound(my.latest.line.step));
  if (my.latest.found) {
    if (!my.halting && verdict.stops && !my.is_last(my.latest)) {
      my.status = "stopped_early";
      my.last = my.latest.line.step;
    } else {
      grant(self, my.latest.line.step);
    }
  }
  if (my.is_last(my.latest)) finish(self);
}

using rules::replicas_by_rank;

/// Returns the replicas that make the result of the first report, where all have been shown.
std::optional<replicas_by_rank> shown_of(const coordinator_state& my) {
  const auto& first = my.reports.front();
  replicas_by_rank all;
  if (!my.queue && my.ends_apart() && my.is_last(first)) {  // each where it has ended
    for (const auto& [step, some] : my.shown)
      for (const auto& [rank, one] : some)
        if (step == my.begun[static_cast<std::size_t>(rank)]) all.emplace(rank, one);
  } else if (const auto found = my.shown.find(first.line.step); found != my.shown.end()) {
    all = found->second;
  }
  return all.size() < my.options.replicas ? std::nullopt : std::optional{std::move(all)};
}

/// Keeps the largest consensus distance before an exchange; NaN, once there was one.
void note_distance(coordinator_state& my, double found) {
  if (!my.most_distant || std::isnan(found) || found > *my.most_distant) my.most_distant = found;
}

/// Puts the result of the first report together. `held`: the servers' parameters, if they hold them.
void put_together(coordinator_pointer self, replicas_by_rank replicas, std::vector<span> held) {
  auto& my = self->state;
  if (replicas.size() == 1 && held.empty()) {
    my.reports.front().result = replicas.begin()->second;
    return;
  }
  my.busy = true;
  auto before = std::move(my.contributed[my.reports.front().line.step]);
  if (before.size() != replicas.size()) before.clear();
  then_on_lane(
      self, *my.where,
      [replicas = std::move(replicas), held = std::move(held), before = std::move(before), options = my.options] {
        const rules::result_options how{.layout = options.layout,
                                        .pool = options.pool,
                                        .replicas_agree = options.replicas_agree,
                                        .first_buffers = options.first_buffers,
                                        .holder_weights = options.holder_weights};
        auto result = rules::result_of(replicas, rules::held_together(held, how), how);
        if (!before.empty()) result.distance_before = rules::distance_of(before, how);
        return result;
      },
      [self](rules::step_result found) {
        auto& first = self->state.reports.front();
        self->state.busy = false;
        first.result = snapshot{{.step = first.line.step}, std::move(found.values)};
        first.line.consensus_distance = found.distance;
        first.line.consensus_distance_before = found.distance_before;
        if (found.distance_before) note_distance(self->state, *found.distance_before);
        process(self);
      });
}

/// Notes how many updates the servers have made, and how stale the gradients of those since the last report were.
void tell_of(coordinator_state& my, const std::vector<holding>& held, record& line) {
  std::vector<staleness_tally> tallies;
  line.updates = ~std::uint64_t{0};  // of shares, those that all have made; of replicas, those of all together
  std::uint64_t made = 0;
  for (const auto& one : held) {
    if (!one.piece.values.defined()) continue;
    line.updates = std::min(line.updates, one.version);
    made += one.version;
    tallies.push_back(one.staleness);
  }
  if (!my.options.holder_weights.empty()) line.updates = made;
  auto all = rules::pooled(tallies);
  if (const auto since = rules::since(my.staleness, all); since.applied > 0) {
    line.staleness_mean = rules::mean(since);
    line.staleness_max = static_cast<double>(since.most);
  }
  my.staleness = std::move(all);
}

/// Takes what the servers hold as the parameters of the first report's result.
void collect(coordinator_pointer self, const replicas_by_rank& replicas) {
  auto& my = self->state;
  my.busy = true;
  auto held = std::make_shared<std::vector<holding>>(my.options.holders.size());
  auto open = std::make_shared<std::size_t>(held->size());
  for (std::size_t i = 0; i < held->size(); ++i)
    self->request(my.options.holders[i], my.options.timeout, result_atom_v, my.reports.front().line.step)
        .then(
            [self, replicas, held, open, i](holding& one) {
              (*held)[i] = std::move(one);
              if (--*open > 0) return;
              std::vector<span> shares;
              for (const auto& share : *held)
                if (share.piece.values.defined()) shares.push_back(share.piece);
              tell_of(self->state, *held, self->state.reports.front().line);
              put_together(self, replicas, std::move(shares));
            },
            [self](const caf::error& why) { self->quit(make_error(errc::peer_lost, "server: " + describe(why))); });
}

/// Notes what the evaluator has found: of the first report's result, then of each replica.
void take_evaluation(report& of, const evaluation& found) {
  if (!of.found) {
    of.found = found;
    return;
  }
  of.replicas.pop_front();
  of.line.val_accuracy_workers.push_back(found.accuracy.value_or(std::numeric_limits<double>::quiet_NaN()));
}

/// Evaluates `weights`, which belong to the first report.
void evaluate(coordinator_pointer self, const snapshot& weights) {
  auto& my = self->state;
  my.busy = true;
  // No deadline of its own: an evaluation may take as long as the validation set is large, and an evaluator that dies
  // is heard of by whoever watches the troupe.
  self->request(my.evaluator, caf::infinite, evaluate_atom_v, weights)
      .then(
          [self](const evaluation& found) {
            self->state.busy = false;
            take_evaluation(self->state.reports.front(), found);
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
    const auto last = my.is_last(first);
    const auto evaluated = (first.evaluated || last) && !my.interrupted();
    const auto stored = !my.options.holders.empty();  // then every line says how stale the gradients were
    const auto wanted = evaluated || last;
    const auto whole = first.result && first.result->values.numel() == my.options.layout.total;
    if ((stored && !first.result) || (wanted && !whole)) {
      const auto replicas = wanted ? shown_of(my) : replicas_by_rank{};
      if (!replicas) return;  // still on its way
      if (my.options.evaluates_replicas)
        for (const auto& [rank, one] : *replicas) first.replicas.push_back(one);
      if (stored)
        collect(self, *replicas);
      else
        put_together(self, *replicas, {});
    } else if (evaluated && !first.found)
      evaluate(self, *first.result);
    else if (evaluated && !first.replicas.empty())
      evaluate(self, first.replicas.front());
    else
      release(self);
  }
}

/// Turns milestones, of all workers, into the report of a step.
report report_of(coordinator_pointer self, std::uint64_t step, const std::vector<milestone>& all) {
  auto& my = self->state;
  const auto now = self->clock().now();
  report made;
  double data_wait = 0, computing = 0;
  rules::training_tally trained;
  for (const auto& one : all) {
    trained.add(one);
    data_wait += one.data_wait;
    computing += one.busy;
    my.bytes_sent[one.rank] = one.bytes_sent;
  }
  for (const auto& [rank, bytes] : my.bytes_sent) made.line.bytes_sent += bytes;
  made.line.train_loss_workers = rules::losses_by_worker(all, my.options.workers);
  my.of_run.add(trained);
  my.of_epoch.add(trained);
  my.data_wait += data_wait;
  my.computing += computing;
  made.line.data_wait = share_of(data_wait, computing);
  if (step > 0) made.line.lr = my.options.lr * my.options.lr_over_time.at(step - 1);
  if (const auto loss = made.line.train_loss = trained.loss()) my.train_loss = loss;
  if (const auto accuracy = made.line.train_accuracy = trained.accuracy()) my.train_accuracy = accuracy;
  made.line.epoch = step / my.options.when.steps_per_epoch;
  made.line.step = made.line.updates = step;
  made.line.seconds = my.clock.seconds(now);
  const auto training = made.line.train_seconds = my.clock.train_seconds(now);
  made.line.samples_per_second = trained.rate(training - std::exchange(my.interval_start, training));
  made.epoch_ends = my.options.when.epoch_ends_at(step);
  made.evaluated = my.options.when.evaluated_at(step);
  if (made.epoch_ends) {
    made.epoch_train_loss = std::exchange(my.of_epoch, {}).loss();
    made.epoch_seconds = training - std::exchange(my.epoch_start, training);
  }
  my.complete = step;
  if (step == my.granted && step != my.last) my.clock.hold(now);  // until there is a verdict
  return made;
}

/// Asks the workers for their parts of the result of `step`.
void ask_to_show(coordinator_pointer self, std::uint64_t step) {
  auto& my = self->state;
  if (my.options.replicas == 0 || my.asked == step) return;
  my.asked = step;
  for (const auto& worker : my.workers) self->send(worker, show_atom_v, step);
}

/// Reports every milestone that the workers of a queue have reached together.
void look_at_queue(coordinator_pointer self) {
  auto& my = self->state;
  for (;;) {
    const auto step = my.options.when.next_milestone(my.complete.value_or(0));
    if (my.complete == step || my.queue->steps() < step) return;
    my.reports.push_back(report_of(self, step, std::exchange(my.unreported, {})));
    if (my.reports.back().evaluated) ask_to_show(self, step);
    process(self);
  }
}

[[noreturn]] void refuse_twice(const milestone& reached) {
  throw std::logic_error("worker " + std::to_string(static_cast<std::uint32_t>(reached.rank)) + " reported step " +
                         std::to_string(reached.step) + " twice");
}

/// All have stopped where they last reported; that report has left, and only its result may be owed.
void repeat_latest(coordinator_state& my) {
  my.reports.push_back(std::move(my.latest));
  my.reports.back().epoch_ends = false;
}

/// Asks the workers of a queue, which have ended, for their parts of the last result: for new ones from those that have
/// already answered for this step, because they may have gone on since.
void ask_for_last(coordinator_pointer self) {
  auto& my = self->state;
  if (my.asked != my.last) return ask_to_show(self, my.last);
  for (const auto& [rank, old] : std::exchange(my.shown[my.last], {}))
    self->send(my.workers.at(static_cast<std::size_t>(rank)), show_atom_v, my.last);
}

/// All workers have ended, each at a step of its own: what some have reported and others never will makes the last
/// report.
void close(coordinator_pointer self) {
  auto& my = self->state;
  auto rest = std::exchange(my.unreported, {});
  for (const auto& [step, some] : std::exchange(my.arriving, {}))
    for (const auto& [rank, one] : some) rest.push_back(one);
  if (!rest.empty() || (my.queue && my.complete != my.last)) {
    const auto told = my.complete == my.last;
    my.reports.push_back(report_of(self, my.last, rest));
    if (told) my.reports.back().epoch_ends = false;
  } else if (my.reports.empty()) {
    repeat_latest(my);
  }
  my.reports.back().ends = true;
  if (my.queue) ask_for_last(self);
  process(self);
}

/// Closes the run if all workers, which end apart, have ended.
void close_if_all_ended(coordinator_pointer self) {
  const auto& my = self->state;
  if (std::equal(my.reported.begin(), my.reported.end(), my.begun.begin(), std::greater_equal<>{})) close(self);
}

/// Looks whether all workers have reported `step`, or have ended.
void look(coordinator_pointer self, std::uint64_t step) {
  auto& my = self->state;
  if (my.ends_apart() && step >= my.last) return close_if_all_ended(self);
  const auto arrived = my.arriving.find(step);
  if (arrived == my.arriving.end() || arrived->second.size() < my.options.workers) return;
  std::vector<milestone> all;
  for (const auto& [rank, one] : arrived->second) all.push_back(one);
  my.arriving.erase(arrived);
  my.reports.push_back(report_of(self, step, all));
  process(self);
}

/// Takes a milestone of a worker that has batches of its own.
void take_own(coordinator_pointer self, const milestone& reached) {
  auto& my = self->state;
  auto& last = my.reported.at(static_cast<std::size_t>(reached.rank));
  if (!my.arriving[reached.step].emplace(reached.rank, reached).second || last > reached.step) refuse_twice(reached);
  last = reached.step;
  look(self, reached.step);
}

/// Takes a milestone of a worker that draws from the queue.
void take_of_queue(coordinator_pointer self, const milestone& reached) {
  auto& my = self->state;
  auto& last = my.reported.at(static_cast<std::size_t>(reached.rank));
  if (reached.step > 0 && last >= reached.step) refuse_twice(reached);
  last = reached.step;
  my.queue->note(reached.rank, reached.step);
  my.unreported.push_back(reached);
  look_at_queue(self);
  my.ends_apart() ? close_if_all_ended(self) : hand_out(self);
}

/// All workers have said what they have begun: the run ends there.
void end_early(coordinator_pointer self) {
  auto& my = self->state;
  const auto [least, most] = std::minmax_element(my.begun.begin(), my.begun.end());
  my.last = my.options.in_lockstep ? *most : *least;
  if (my.queue) my.last = std::accumulate(my.begun.begin(), my.begun.end(), std::uint64_t{0}) / my.options.workers;
  if (my.last == my.options.when.steps && my.status == "max_seconds") my.status = "done";  // nothing was cut short
  if (my.options.in_lockstep) std::fill(my.begun.begin(), my.begun.end(), my.last);
  for (std::size_t rank = 0; rank < my.workers.size(); ++rank)
    self->send(my.workers[rank], finish_atom_v, my.begun[rank]);
  if (my.ends_apart()) return close_if_all_ended(self);
  if (my.complete == my.last && my.reports.empty()) repeat_latest(my);
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
  my.begun.resize(my.workers.size());
  for (std::size_t rank = 0; rank < my.workers.size(); ++rank) {
    self->request(my.workers[rank], my.options.timeout, halt_atom_v)
        .then(
            [self, rank](std::uint64_t begun) {
              self->state.begun[rank] = begun;
              if (++self->state.halt_answers == self->state.workers.size()) end_early(self);
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
  my.reported.resize(options.workers);
  my.options = std::move(options);
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
        my.clock.begin(self->clock().now());
        record start;
        start.event = "start";
        self->send(my.recorder, record_atom_v, start);
        if (my.options.max_seconds) self->delayed_send(self, *my.options.max_seconds, tick_atom_v);
        grant(self, 0);
        if (my.queue) look_at_queue(self);  // a run of no steps is complete
      },
      [self](reached_atom, const milestone& reached) {
        self->state.queue ? take_of_queue(self, reached) : take_own(self, reached);
      },
      [self](result_atom, const snapshot& replica) {
        auto& my = self->state;
        const auto step = replica.origin.step;
        if (replica.before_exchange) {
          my.contributed[step].emplace(replica.origin.sender, replica);
          return;
        }
        if (!my.shown[step].emplace(replica.origin.sender, replica).second)
          throw std::logic_error("worker " + std::to_string(static_cast<std::uint32_t>(replica.origin.sender)) +
                                 " sent its parameters for step " + std::to_string(step) + " twice");
        process(self);
      },
      [self](halt_atom) { halt(self, "interrupted"); },
      [self](tick_atom) {
        if (!self->state.halting) halt(self, "max_seconds");  // else it ends for another reason already
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
