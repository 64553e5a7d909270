#include "troupe/actors/recorder.hpp"

#include <caf/all.hpp>

#include <algorithm>
#include <utility>
#include <vector>

namespace troupe {

namespace {

struct recorder_state {
  static inline const char* name = "recorder";
  std::shared_ptr<journal> book;  ///< Used on the lane only.
  std::unique_ptr<lane> where;
  std::vector<std::uint64_t> completed;  ///< Steps, by rank.
  bool glancing{false};  ///< The journal has not yet taken the last progress; it gets no further one meanwhile.
};

recorder_actor::behavior_type recorder(recorder_actor::stateful_pointer<recorder_state> self, std::uint32_t workers,
                                       std::shared_ptr<journal> book, std::shared_ptr<std::unique_ptr<lane>> where) {
  report_exceptions(self);
  self->state.book = std::move(book);
  self->state.where = std::move(*where);
  self->state.completed.resize(workers);
  return {
      [self](record_atom, const record& line) {
        then_on_lane(
            self, *self->state.where, [book = self->state.book, line] { return book->write(line), true; }, [](bool) {});
      },
      [self](keep_atom, const snapshot& best) {
        then_on_lane(
            self, *self->state.where, [book = self->state.book, best] { return book->keep(best), true; }, [](bool) {});
      },
      [self](progress_atom, rank_id rank, std::uint64_t step) {
        auto& my = self->state;
        my.completed.at(static_cast<std::size_t>(rank)) = step;
        if (my.glancing) return;
        my.glancing = true;
        then_on_lane(
            self, *my.where,
            [book = my.book, least = *std::min_element(my.completed.begin(), my.completed.end())] {
              return book->progress(least), true;
            },
            [self](bool) { self->state.glancing = false; });
      },
      [self](save_atom, const snapshot& result, const record& end) {
        return on_lane<std::uint64_t>(self, *self->state.where, [book = self->state.book, result, end] {
          book->save(result);
          book->write(end);
          return end.step;
        });
      },
      [](done_atom, const completion& done) { (*done.run)(); },
  };
}

}  // namespace

recorder_actor spawn_recorder(caf::actor_system& system, std::uint32_t workers, std::shared_ptr<journal> book,
                              std::unique_ptr<lane> where) {
  return system.spawn(recorder, workers, std::move(book), std::make_shared<std::unique_ptr<lane>>(std::move(where)));
}

}  // namespace troupe
