// Measures how long a worker waits, and enforces its deadlines.
#include "troupe/actors/worker/worker_state.hpp"

#include <caf/all.hpp>

#include <algorithm>
#include <chrono>
#include <utility>

namespace troupe {

namespace {

/// Makes sure that a tick arrives at the next deadline.
void await_tick(worker_pointer self) {
  auto& my = self->state;
  auto next = my.compute_due;
  if (my.exchange_due && (!next || *my.exchange_due < *next)) next = my.exchange_due;
  if (!next || (my.ticks_at && *my.ticks_at <= *next)) return;
  my.ticks_at = next;
  self->delayed_send(self, *next - self->clock().now(), tick_atom_v);
}

}  // namespace

void expect(worker_pointer self, std::optional<caf::actor_clock::time_point>& due, std::chrono::milliseconds within) {
  due = self->clock().now() + within;
  await_tick(self);
}

void watch(worker_pointer self) {
  auto& my = self->state;
  const auto now = self->clock().now();
  if (my.ticks_at && now < *my.ticks_at) return;  // an old tick; the current one has not arrived yet
  my.ticks_at.reset();
  const auto late = [&](const auto& due) { return due && *due <= now; };
  if (late(my.compute_due)) return lose_compute(self, caf::sec::request_timeout);
  if (late(my.exchange_due)) return lose(self, "exchange", caf::sec::request_timeout);
  await_tick(self);
}

void note_wait(worker_pointer self) {
  auto& since = self->state.waits_since;
  if (!since) since = self->clock().now();
}

void count_wait(worker_pointer self) {
  auto& my = self->state;
  if (!my.waits_since) return;
  const auto since = *std::exchange(my.waits_since, std::nullopt), now = self->clock().now();
  my.tally.exchange_wait += std::max(std::chrono::duration<double>(now - since).count(), 0.0);
  if (now > since) my.options.track.add("wait for exchange", trace_time_of(since), trace_time_of(now));
}

void note_standing(worker_pointer self) {
  auto& my = self->state;
  if (my.options.track && !my.stands_since) my.stands_since = self->clock().now();
}

void report_standing(worker_state& my, caf::actor_clock::time_point now) {
  if (!my.stands_since) return;
  const auto* cause = my.options.draws_from_queue                   ? "wait for batches"
                      : my.options.when.checkpoint_at(my.completed) ? "wait for checkpoint"
                                                                    : "wait for verdict";
  const auto since = *std::exchange(my.stands_since, std::nullopt);
  if (now > since) my.options.track.add(cause, trace_time_of(since), trace_time_of(now));
}

}  // namespace troupe
