// The coordinator's state, and the parts of its behaviour that are in files of their own. Only for coordinator*.cpp.
#pragma once

#include "troupe/actors/coordinator/arrivals.hpp"
#include "troupe/actors/coordinator/coordinator.hpp"
#include "troupe/actors/coordinator/run_totals.hpp"
#include "troupe/actors/coordinator/verdicts.hpp"
#include "troupe/actors/coordinator/work_queue.hpp"
#include "troupe/algorithms/messages/report.hpp"
#include "troupe/algorithms/rules/agreement.hpp"

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace troupe {

/// The states of all actors, as they arrive for one checkpoint.
struct checkpoint_collection {
  std::uint64_t number{0};  ///< Number of the last request for states; answers to earlier ones are ignored.
  bool open{false};         ///< Whether a checkpoint is being assembled.
  std::size_t missing{0};   ///< States that have been requested and have not arrived.
  run_state states;
  std::function<void()> then;         ///< Continues the run.
  std::function<void(bool)> written;  ///< Called when the checkpoint is written, or cannot be; may be empty.
};

/// What is being done with the first report.
enum class report_work : std::uint8_t { none, assembling, evaluating };

/// How far an early end of the run has progressed, after a signal or the time limit. A run that an evaluation stops
/// (status stopped_early) needs none of this, because it ends at a step that all workers have reported.
enum class early_end : std::uint8_t {
  no,
  halting,  ///< The workers were told to halt.
  saving,   ///< The workers were told to halt; nothing else may change before a checkpoint is taken.
  decided,  ///< The step at which the run ends is known.
};

/// The orders of guests, and how far they are carried out; see coordinator_steering.cpp.
struct steering_state {
  enum class phase : std::uint8_t { none, holding, stopping, stopped };
  phase now{phase::none};
  bool paused{false};
  std::deque<steering_order> orders;   ///< Orders that are not carried out yet.
  std::optional<steering_order> halt;  ///< The order that ends the run, until the last step is known.
  std::deque<steering_order> saving;   ///< Orders whose checkpoints are not written yet.
  std::uint64_t round{0};              ///< Number of the last question to the workers.
  std::set<rank_id> awaited;           ///< Workers whose answers are missing.
  std::vector<std::uint64_t> steps;    ///< By rank: where the workers stop.
  std::uint64_t step{0};               ///< Steps of the run there, as metrics count them.
  std::uint64_t from{0};               ///< Steps that every worker has completed there.
};

struct coordinator_state {
  static inline const char* name = "coordinator";
  coordinator_options options;
  evaluator_actor evaluator;
  recorder_actor recorder;
  std::unique_ptr<lane> where;
  std::vector<directed_worker> workers;
  intake deliveries;  ///< All asynchronous input of the coordinator passes through it.

  std::optional<rules::work_queue> queue;  ///< Queue of batches; empty if each worker has its own.
  std::optional<std::uint64_t> asked;      ///< Last step for which `show` was sent. Used only with a queue.
  rules::arrivals arrived;
  rules::agreement replicas;  ///< Compares the digests of replicas that should be equal.
  rules::run_totals totals;
  rules::verdicts verdicts;
  /// Reports of steps that all workers have reported. COORDINATOR-1: steps never decrease, and they are written in this
  /// order, one at a time.
  std::deque<rules::report> reports;
  report_work work_on_first{report_work::none};
  rules::report latest;          ///< The last report that was written, with its result.
  std::optional<snapshot> best;  ///< The best result so far. Used only with checkpoints.
  std::uint64_t judged{0};       ///< Step of the last evaluation that was written.
  /// Steps up to which a continued run reports nothing further, because its schedule of evaluations has changed.
  std::uint64_t passed{0};
  std::uint64_t allowed{0};    ///< Steps that the workers may make, as far as evaluations are concerned.
  std::uint64_t last{0};       ///< The step at which the run ends.
  std::string status{"done"};  ///< Status of the `end` record.
  std::string stopped_by;      ///< See record::stopped_by.
  early_end ending{early_end::no};
  bool finished{false};  ///< COORDINATOR-2: the recorder is asked to save the result, once, after the last report.
  std::set<rank_id> to_answer_halt;  ///< Workers that were told to halt and have not answered.
  std::uint64_t halt_answers{0};     ///< Answers that were taken in.
  std::vector<std::uint64_t> ends;   ///< By rank: steps that a halted worker has started; later, its last step.

  /// The next step at which all workers wait for a checkpoint; no further step is granted before it.
  std::uint64_t barrier{std::numeric_limits<std::uint64_t>::max()};
  std::set<rank_id> waiting;         ///< Workers that wait at the barrier. Not used with a queue.
  checkpoint_collection collection;  ///< COORDINATOR-3: one at a time.
  bool writing{false};               ///< The recorder is writing a checkpoint.
  steering_state steering;
  std::size_t restoring{0};  ///< Workers and servers that are not restored yet.
  /// Signals and ends of the time limit that arrived while the run was being restored.
  std::size_t interrupts_waiting{0}, time_limits_waiting{0};
  std::vector<steering_order> orders_waiting;  ///< Orders that arrived then.

  bool interrupted() const { return status == "interrupted"; }
  bool halting() const { return ending != early_end::no; }
  bool stands_still() const { return steering.now != steering_state::phase::none; }
  bool ends_apart() const { return halting() && !options.in_lockstep && halt_answers == workers.size(); }
  bool is_last(const rules::report& one) const { return ends_apart() ? one.ends : one.line.step == last; }
  bool waits_for_verdicts() const { return options.stop.any() || options.pauses; }
  bool makes_checkpoints() const { return options.when.checkpoint_every > 0; }

  /// Return and restore the coordinator's own state. An evaluation that was under way starts again.
  state_dict state(rules::run_clock::time_point now) const;
  void restore(const state_dict& from, rules::run_clock::time_point now);
};

using coordinator_pointer = coordinator_actor::stateful_pointer<coordinator_state>;

/// Sends each worker the message that `message_for` returns for its rank.
template <class MessageFor>
void tell_all(coordinator_pointer self, MessageFor message_for) {
  const auto& workers = self->state.workers;
  for (std::uint32_t rank = 0; rank < workers.size(); ++rank) self->send(workers[rank], message_for(rank_id{rank}));
}

// In coordinator.cpp.

/// Lets the workers continue as far as evaluations and checkpoints allow.
void let_continue(coordinator_pointer self);

/// Assembles, evaluates and writes the reports, one after the other.
void process(coordinator_pointer self);

/// Ends the run early, at the first step that all workers can complete.
void halt(coordinator_pointer self, std::string status);

// In coordinator_result.cpp.

/// Starts to assemble the result of the first report. Returns false if some replicas have not arrived.
bool begin_result(coordinator_pointer self, bool whole);

/// Evaluates `weights`, which belong to the first report.
void evaluate(coordinator_pointer self, const snapshot& weights);

// In coordinator_checkpoint.cpp.

/// Notes that a worker waits for a checkpoint after `step` steps.
void take_arrival(coordinator_pointer self, rank_id worker, std::uint64_t step);

/// Makes a checkpoint if one is due and the workers of a queue have completed all steps before it.
void look_for_barrier(coordinator_pointer self);

/// Assembles a checkpoint of `step`, then calls `then`. All workers must have stopped.
void begin_checkpoint(coordinator_pointer self, std::uint64_t step, std::function<void()> then,
                      std::function<void(bool)> written = {});

/// Takes the state of a worker.
void take_state(coordinator_pointer self, rank_id worker, std::uint64_t number, const state_dict& state);

/// Writes the checkpoint that is being assembled if nothing is missing.
void write_checkpoint_if_complete(coordinator_pointer self);

/// Restores the run from coordinator_options::restored and continues it.
void restore_run(coordinator_pointer self);

/// Notes that one worker or server is restored.
void take_restored(coordinator_pointer self);

/// Ends the run unless `silent()`, the workers that have not answered yet, is empty after run.timeout. `what`: what
/// they were told to do.
void expect(coordinator_pointer self, const std::string& what, std::function<std::set<rank_id>()> silent);

// In coordinator_steering.cpp.

/// Tells the workers from when on another learning rate applies.
void announce(coordinator_pointer self, const rate_changes::change& change);

/// Carries out an order of a guest, or refuses it.
void take_order(coordinator_pointer self, const steering_order& order);

/// Carries out the orders that are waiting, as far as possible now.
void carry_out_orders(coordinator_pointer self);

/// Notes at which step the run ends, if a guest has ended it.
void complete_halt(coordinator_pointer self);

/// Refuses all orders that are waiting, because the run ends.
void refuse_orders(coordinator_pointer self);

/// Take the answers of workers.
void take_held(coordinator_pointer self, const control::held& reached);
void take_stopped(coordinator_pointer self, const control::stopped& reached);

}  // namespace troupe
