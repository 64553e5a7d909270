// How the coordinator carries out the orders of guests. All but two need the workers to stand still, in three phases:
//
//   none ── an order ──► holding ── all have answered `held` ──► stopping ── all have `stopped` ──► stopped
//
// In `stopped`, orders are carried out one after the other; after the last one, the run goes on unless it is paused. An
// order waits while a checkpoint is being assembled.
#include "troupe/actors/coordinator/coordinator_state.hpp"
#include "troupe/actors/wire/actor_id.hpp"

#include <caf/all.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>

namespace troupe {

namespace {

using phase = steering_state::phase;
using kind = steering_order::kind;

void answer(const steering_order& order, const order_answer& how) {
  if (order.answer) (*order.answer)(how);
}

/// Writes the order to the metrics.
void record_order(coordinator_pointer self, const steering_order& order, std::uint64_t step) {
  auto& my = self->state;
  auto line = my.totals.line_at(step, self->clock().now());
  if (!my.options.holders.empty()) line.updates = std::max(line.updates, my.latest.line.updates);
  line.event = "steered";
  line.steered = steering_note{.what = name_of(order.what), .guest = order.guest};
  if (order.what == kind::rate) {
    line.steered->lr = order.lr;
    line.steered->from = std::max(order.step, step);
  }
  self->send(my.recorder, record_atom_v, line);
}

/// Notes that an order is carried out after `step` steps.
void complete(coordinator_pointer self, const steering_order& order, std::uint64_t step) {
  if (!self->state.finished) record_order(self, order, step);  // nothing follows the last line
  answer(order, {.step = step});
}

/// Ends the run if a worker does not answer the last question in time.
void expect_answers(coordinator_pointer self, const std::string& what) {
  expect(self, what, [self, round = ++self->state.steering.round] {
    const auto& steering = self->state.steering;
    return steering.round == round && steering.now != phase::none ? steering.awaited : std::set<rank_id>{};
  });
}

/// Tells all workers to hold.
void begin_hold(coordinator_pointer self) {
  auto& my = self->state;
  my.steering.now = phase::holding;
  my.steering.steps.assign(my.workers.size(), 0);
  my.steering.awaited.clear();
  tell_all(self, [&my](rank_id rank) {
    my.steering.awaited.insert(rank);
    return control::hold{rank};
  });
  expect_answers(self, "hold");
}

/// Tells the workers where to stop: all at the same step if they work in lockstep, otherwise each where it is.
void begin_stop(coordinator_pointer self) {
  auto& my = self->state;
  auto& steering = my.steering;
  steering.now = phase::stopping;
  const auto [least, most] = std::minmax_element(steering.steps.begin(), steering.steps.end());
  steering.from = *least;
  steering.step = my.options.in_lockstep ? *most : *least;
  if (my.options.in_lockstep) steering.from = steering.step;
  if (my.queue)
    steering.step =
        std::accumulate(steering.steps.begin(), steering.steps.end(), std::uint64_t{0}) / my.options.workers;
  if (my.options.in_lockstep) std::fill(steering.steps.begin(), steering.steps.end(), steering.step);
  tell_all(self, [&](rank_id rank) {
    steering.awaited.insert(rank);
    return control::stop_at{rank, steering.steps[static_cast<std::size_t>(rank)]};
  });
  expect_answers(self, "stop");
}

void change_rate(coordinator_pointer self, const steering_order& order) {
  auto& my = self->state;
  const rate_changes::change change{.from = std::max(order.step, my.steering.from), .lr = order.lr};
  my.options.lr_over_time.changes->set(change);
  announce(self, change);
}

/// Lets the run go on after the last order.
void go_on(coordinator_pointer self) {
  auto& my = self->state;
  my.steering.now = phase::none;
  my.totals.clock.release(self->clock().now(), rules::run_clock::cause::guest);
  if (my.queue)
    tell_all(self, [&my](rank_id rank) { return control::proceed{rank, my.queue->steps_assigned_to(rank)}; });
  let_continue(self);
}

/// Returns why an order is not carried out, or "".
std::string objection_to(const coordinator_state& my, const steering_order& order) {
  if (my.finished || my.halting() || my.last != my.options.when.steps) return "the run is ending";
  if (order.what == kind::go_on && !my.steering.paused) return "the run is not paused";
  if (order.what != kind::rate) return {};
  if (!std::isfinite(order.lr) || order.lr < 0) return "the learning rate must be a finite number that is not negative";
  if (!my.options.lr_over_time.changes) return "the learning rate of this run cannot be changed";
  return {};
}

}  // namespace

std::string name_of(steering_order::kind what) {
  switch (what) {
    case kind::pause:
      return "pause";
    case kind::go_on:
      return "continue";
    case kind::checkpoint:
      return "checkpoint";
    case kind::halt:
      return "halt";
    case kind::rate:
      return "learning_rate";
  }
  return "unknown";
}

void announce(coordinator_pointer self, const rate_changes::change& change) {
  tell_all(self, [&](rank_id rank) { return control::change_rate{rank, change.from, change.lr}; });
}

void take_order(coordinator_pointer self, const steering_order& order) {
  auto& my = self->state;
  if (const auto objection = objection_to(my, order); !objection.empty()) return answer(order, {.refusal = objection});
  if (order.what == kind::halt) {
    my.steering.halt = order;
    return halt(self, "halted");
  }
  if (order.what == kind::go_on) {
    my.steering.paused = false;
    complete(self, order, my.steering.step);
    return carry_out_orders(self);
  }
  my.steering.orders.push_back(order);
  carry_out_orders(self);
}

void carry_out_orders(coordinator_pointer self) {
  auto& my = self->state;
  auto& steering = my.steering;
  if (my.halting() || my.finished) return refuse_orders(self);
  if (my.collection.open) return;  // called again afterwards
  if (steering.now == phase::none && !steering.orders.empty()) return begin_hold(self);
  if (steering.now != phase::stopped) return;
  while (!steering.orders.empty()) {
    const auto order = steering.orders.front();
    steering.orders.pop_front();
    if (order.what == kind::checkpoint) {
      steering.saving.push_back(order);
      begin_checkpoint(
          self, steering.step, [self] { carry_out_orders(self); },
          [self, step = steering.step](bool written) {
            auto& saving = self->state.steering.saving;
            if (written)
              complete(self, saving.front(), step);
            else
              answer(saving.front(), {.refusal = "the checkpoint cannot be written; the run has printed why"});
            saving.pop_front();
          });
      return;
    }
    if (order.what == kind::rate) change_rate(self, order);
    if (order.what == kind::pause) steering.paused = true;
    complete(self, order, steering.step);
  }
  if (!steering.paused) go_on(self);
}

void complete_halt(coordinator_pointer self) {
  auto& my = self->state;
  if (const auto order = std::exchange(my.steering.halt, std::nullopt)) complete(self, *order, my.last);
}

void refuse_orders(coordinator_pointer self) {
  auto& my = self->state;
  auto& steering = my.steering;
  constexpr auto* why = "the run is ending";
  for (const auto& order : std::exchange(steering.orders, {})) answer(order, {.refusal = why});
  if (my.collection.written) {  // the checkpoint that is being assembled will not be written
    answer(steering.saving.back(), {.refusal = why});
    steering.saving.pop_back();
    my.collection.written = {};
  }
  steering.now = phase::none;
  steering.paused = false;
}

void take_held(coordinator_pointer self, const control::held& reached) {
  auto& steering = self->state.steering;
  if (steering.now != phase::holding || steering.awaited.erase(reached.rank) == 0) return;
  steering.steps[static_cast<std::size_t>(reached.rank)] = reached.steps;
  if (steering.awaited.empty()) begin_stop(self);
}

void take_stopped(coordinator_pointer self, const control::stopped& reached) {
  auto& my = self->state;
  if (my.steering.now != phase::stopping || my.steering.awaited.erase(reached.rank) == 0) return;
  if (!my.steering.awaited.empty()) return;
  my.steering.now = phase::stopped;
  my.totals.clock.hold(self->clock().now(), rules::run_clock::cause::guest);
  carry_out_orders(self);
}

}  // namespace troupe
