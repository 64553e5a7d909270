#include "troupe/actors/service/recorder.hpp"

#include <caf/all.hpp>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace troupe {

namespace {

struct open_checkpoint {
  std::uint64_t step{0};
  caf::typed_response_promise<bool> answer;
  bool written{false};
};

struct recorder_state {
  static inline const char* name = "recorder";
  recorder_options options;  ///< The journal is used on the lane only.
  std::unique_ptr<lane> where;
  std::vector<std::uint64_t> completed;           ///< Steps, by rank.
  std::map<std::uint64_t, std::uint32_t> counts;  ///< Number of workers, by completed steps.
  std::uint64_t sum{0};                           ///< Steps of all workers.
  std::optional<snapshot> best;                   ///< The result to write next; a better one may replace it before.
  bool keeping{false};                            ///< The journal is writing an earlier best result.
  bool reporting{false};   ///< The journal is handling a progress report; no further one is sent meanwhile.
  bool unreported{false};  ///< There was progress meanwhile.
  /// Checkpoints that have not been written or copied yet, by serial number. Two may belong to the same step: one that
  /// was due, and the one at the end of the run.
  std::map<std::uint64_t, open_checkpoint> open;
  std::uint64_t begun{0};        ///< Number of checkpoints so far.
  bool copy_overdue{false};      ///< A copy was not confirmed in time.
  std::function<void()> finish;  ///< The end of the run, which waits for the checkpoints.
};

constexpr task to_write{.what = task::kind::write};

using recorder_pointer = recorder_actor::stateful_pointer<recorder_state>;

/// Writes the best result unless one is being written, so that at most two are held, however slow the disk is.
void keep(recorder_pointer self) {
  auto& my = self->state;
  if (my.keeping || !my.best) return;
  my.keeping = true;
  then_on_lane(
      self, *my.where, to_write,
      [journal = my.options.journal, best = *std::exchange(my.best, std::nullopt)] {
        return journal->keep(best), true;
      },
      [self](bool) {
        self->state.keeping = false;
        keep(self);
      });
}

/// Answers the request for a checkpoint. Finishes the run if it was waiting for the last open checkpoint.
void complete_checkpoint(recorder_pointer self, std::uint64_t serial) {
  auto& my = self->state;
  const auto checkpoint = my.open.find(serial);
  if (checkpoint == my.open.end()) return;
  checkpoint->second.answer.deliver(bool{checkpoint->second.written});
  my.open.erase(checkpoint);
  if (my.open.empty() && my.finish) std::exchange(my.finish, {})();
}

/// Notes that the copy of the checkpoint of `step` is confirmed.
void take_copied(recorder_pointer self, std::uint64_t step) {
  auto& my = self->state;
  my.copy_overdue = false;
  const auto first =
      std::find_if(my.open.begin(), my.open.end(), [step](const auto& entry) { return entry.second.step == step; });
  if (first != my.open.end()) complete_checkpoint(self, first->first);
}

/// Stops waiting for a copy that is not confirmed in time, because the disk of its node may hang.
void check_copy(recorder_pointer self, std::uint64_t serial) {
  auto& my = self->state;
  const auto checkpoint = my.open.find(serial);
  if (checkpoint == my.open.end()) return;
  my.copy_overdue = true;
  then_on_lane(
      self, *my.where, to_write,
      [journal = my.options.journal, step = checkpoint->second.step] {
        return journal->report_overdue_copy(step), true;
      },
      [](bool) {});
  complete_checkpoint(self, serial);
}

/// Notes that a worker has completed `step` steps.
void note_progress(recorder_state& my, rank_id rank, std::uint64_t step) {
  auto& before = my.completed.at(static_cast<std::size_t>(rank));
  if (const auto count = my.counts.find(before); --count->second == 0) my.counts.erase(count);
  my.counts[step] += 1;
  my.sum += step - before;
  before = step;
}

std::uint64_t progress_of(const recorder_state& my) {
  return my.options.draws_from_queue ? my.sum / my.completed.size() : my.counts.begin()->first;
}

/// Writes a checkpoint and sends it to the node that keeps a copy.
caf::result<bool> write_checkpoint(recorder_pointer self, const run_state& state) {
  auto& my = self->state;
  auto best = std::exchange(my.best, std::nullopt);
  auto promise = self->make_response_promise<bool>();
  const auto serial = my.begun++;
  my.open.emplace(serial, open_checkpoint{.step = state.step, .answer = promise});
  then_on_lane(
      self, *my.where, to_write,
      [journal = my.options.journal, send_copy = my.copy_overdue ? nullptr : my.options.send_copy, best, state] {
        if (best) journal->keep(*best);
        const auto files = journal->checkpoint(state, send_copy != nullptr);
        if (files) send_copy(state.step, *files);
        return std::pair{journal->wrote_checkpoint(), files.has_value()};
      },
      [self, serial](const std::pair<bool, bool>& done) {
        const auto [written, copying] = done;
        self->state.open.at(serial).written = written;
        if (!copying) return complete_checkpoint(self, serial);
        self->delayed_send(self, self->state.options.copy_timeout, tick_atom_v, serial);
      });
  return promise;
}

/// Writes the result and the last line, and ends the journal.
caf::result<std::uint64_t> save(recorder_pointer self, const snapshot& result, const record& end) {
  auto promise = self->make_response_promise<std::uint64_t>();
  auto write = [self, promise, result, end] {
    auto& my = self->state;
    auto best = std::exchange(my.best, std::nullopt);
    then_on_lane(
        self, *my.where, to_write,
        [journal = my.options.journal, best, result, end] {
          journal->save(result);  // first: everything else may fail
          if (best) journal->keep(*best);
          journal->write(end);
          return end.step;
        },
        [promise](std::uint64_t step) mutable { promise.deliver(step); });
  };
  if (self->state.open.empty())
    write();
  else
    self->state.finish = std::move(write);
  return promise;
}

/// Reports the progress to the journal, one report at a time.
void report_recorded_progress(recorder_pointer self) {
  auto& my = self->state;
  my.unreported = my.reporting;
  if (std::exchange(my.reporting, true)) return;
  then_on_lane(
      self, *my.where, to_write,
      [journal = my.options.journal, steps = progress_of(my),
       by_worker = my.completed.size() <= progress_by_worker_max ? my.completed : std::vector<std::uint64_t>{}] {
        if (!by_worker.empty()) journal->progress_by_worker(by_worker);
        return journal->progress(steps), true;
      },
      [self](bool) {
        self->state.reporting = false;
        if (self->state.unreported) report_recorded_progress(self);
      });
}

recorder_actor::behavior_type recorder(recorder_pointer self, recorder_options options,
                                       std::shared_ptr<std::unique_ptr<lane>> where) {
  report_exceptions(self);
  self->state.options = std::move(options);
  self->state.where = std::move(*where);
  self->state.completed.resize(self->state.options.workers);
  self->state.counts[0] = self->state.options.workers;
  return {
      [self](record_atom, const record& line) {
        then_on_lane(
            self, *self->state.where, to_write,
            [journal = self->state.options.journal, line] { return journal->write(line), true; }, [](bool) {});
      },
      [self](keep_atom, const snapshot& best) {
        self->state.best = best;
        keep(self);
      },
      [self](const control::progress& reached) {
        note_progress(self->state, reached.rank, reached.steps);
        report_recorded_progress(self);
      },
      [self](checkpoint_atom, const run_state& state) { return write_checkpoint(self, state); },
      [self](checkpoint_atom, std::uint64_t step) { take_copied(self, step); },
      [self](tick_atom, std::uint64_t serial) { check_copy(self, serial); },
      [self](save_atom, const snapshot& result, const record& end) { return save(self, result, end); },
      [](done_atom, const completion& done) { (*done.run)(); },
  };
}

}  // namespace

recorder_actor spawn_recorder(caf::actor_system& system, recorder_options options, std::unique_ptr<lane> where) {
  return system.spawn(recorder, std::move(options), std::make_shared<std::unique_ptr<lane>>(std::move(where)));
}

}  // namespace troupe
