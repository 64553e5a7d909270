#include "troupe/actors/recorder.hpp"

#include <caf/all.hpp>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

namespace troupe {

namespace {

struct recorder_state {
  static inline const char* name = "recorder";
  std::shared_ptr<journal> book;  ///< Used on the lane only.
  std::unique_ptr<lane> where;
  std::vector<std::uint64_t> completed;  ///< Steps, by rank.
  std::optional<snapshot> best;          ///< To be kept; one that a better one overtakes is never written.
  bool keeping{false};                   ///< The journal is writing the one before it.
  bool reporting{false};  ///< The journal has not yet taken the last progress; it gets no further one meanwhile.
};

constexpr task to_write{.what = task::kind::write};

using recorder_pointer = recorder_actor::stateful_pointer<recorder_state>;

/// Writes the best result, unless one is being written: so at most two are held, however slow the disk is.
void keep(recorder_pointer self) {
  auto& my = self->state;
  if (my.keeping || !my.best) return;
  my.keeping = true;
  then_on_lane(
      self, *my.where, to_write,
      [book = my.book, best = *std::exchange(my.best, std::nullopt)] { return book->keep(best), true; },
      [self](bool) {
        self->state.keeping = false;
        keep(self);
      });
}

std::uint64_t progress_of(const std::vector<std::uint64_t>& completed, bool draws_from_queue) {
  if (draws_from_queue) return std::accumulate(completed.begin(), completed.end(), std::uint64_t{0}) / completed.size();
  return *std::min_element(completed.begin(), completed.end());
}

recorder_actor::behavior_type recorder(recorder_pointer self, std::uint32_t workers, bool draws_from_queue,
                                       std::shared_ptr<journal> book, std::shared_ptr<std::unique_ptr<lane>> where) {
  report_exceptions(self);
  self->state.book = std::move(book);
  self->state.where = std::move(*where);
  self->state.completed.resize(workers);
  return {
      [self](record_atom, const record& line) {
        then_on_lane(
            self, *self->state.where, to_write, [book = self->state.book, line] { return book->write(line), true; },
            [](bool) {});
      },
      [self](keep_atom, const snapshot& best) {
        self->state.best = best;
        keep(self);
      },
      [self, draws_from_queue](progress_atom, rank_id rank, std::uint64_t step) {
        auto& my = self->state;
        my.completed.at(static_cast<std::size_t>(rank)) = step;
        if (my.reporting) return;
        my.reporting = true;
        then_on_lane(
            self, *my.where, to_write,
            [book = my.book, steps = progress_of(my.completed, draws_from_queue)] {
              return book->progress(steps), true;
            },
            [self](bool) { self->state.reporting = false; });
      },
      [self](checkpoint_atom, const run_state& state) {
        auto best = std::exchange(self->state.best, std::nullopt);
        return on_lane<std::uint64_t>(self, *self->state.where, to_write, [book = self->state.book, best, state] {
          if (best) book->keep(*best);
          book->checkpoint(state);
          return state.step;
        });
      },
      [self](save_atom, const snapshot& result, const record& end) {
        auto best = std::exchange(self->state.best, std::nullopt);
        return on_lane<std::uint64_t>(self, *self->state.where, to_write, [book = self->state.book, best, result, end] {
          if (best) book->keep(*best);
          book->save(result);
          book->write(end);
          return end.step;
        });
      },
      [](done_atom, const completion& done) { (*done.run)(); },
  };
}

}  // namespace

recorder_actor spawn_recorder(caf::actor_system& system, std::uint32_t workers, bool draws_from_queue,
                              std::shared_ptr<journal> book, std::unique_ptr<lane> where) {
  return system.spawn(recorder, workers, draws_from_queue, std::move(book),
                      std::make_shared<std::unique_ptr<lane>>(std::move(where)));
}

}  // namespace troupe
