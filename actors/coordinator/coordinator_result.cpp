// How the coordinator puts the result of a step together and has it evaluated.
#include "troupe/actors/coordinator/coordinator_state.hpp"
#include "troupe/actors/coordinator/result.hpp"
#include "troupe/algorithms/support/assert.hpp"

#include <caf/all.hpp>

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

namespace troupe {

namespace {

using rules::replicas_by_rank;

/// Returns the replicas from which the result of the first report is assembled, if all have arrived.
std::optional<replicas_by_rank> replicas_of_first(const coordinator_state& my) {
  const auto& first = my.reports.front();
  const auto each_at_its_end = !my.queue && my.ends_apart() && my.is_last(first);
  if (!each_at_its_end && my.arrived.shown_count(first.line.step) < my.options.replicas) return std::nullopt;
  auto replicas = each_at_its_end ? my.arrived.shown_at(my.ends) : my.arrived.shown(first.line.step);
  return replicas.size() < my.options.replicas ? std::nullopt : std::optional{std::move(replicas)};
}

/// Assembles the result of the first report. `held`: the parameters that servers hold; empty if the workers hold them.
void assemble(coordinator_pointer self, replicas_by_rank replicas, std::vector<span> held) {
  auto& my = self->state;
  if (replicas.size() == 1 && held.empty()) {
    my.reports.front().result = replicas.begin()->second;
    return;
  }
  my.work_on_first = report_work::assembling;
  auto before = my.arrived.before_mixing(my.reports.front().line.step);
  if (before.size() != replicas.size()) before.clear();
  auto after = my.arrived.after_mixing(my.reports.front().line.step);
  if (!after.empty()) after.insert(replicas.begin(), replicas.end());  // from workers that have made no step since
  then_on_lane(
      self, *my.where,
      {.what = task::kind::assemble,
       .elements = static_cast<std::int64_t>(replicas.size() + held.size()) * my.options.layout.total},
      [replicas = std::move(replicas), held = std::move(held), before = std::move(before), after = std::move(after),
       options = my.options] {
        const rules::result_options how{.layout = options.layout,
                                        .pool = options.pool,
                                        .replicas_agree = options.replicas_agree,
                                        .first_buffers = options.first_buffers,
                                        .holder_weights = options.holder_weights};
        auto result = rules::result_of(replicas, rules::held_together(held, how), how);
        if (before.empty()) return result;
        result.distance_before = rules::distance_of(before, how);
        const auto& mixed = after.empty() ? replicas : after;
        result.distance_after = after.empty() && result.distance ? result.distance : rules::distance_of(mixed, how);
        return result;
      },
      [self](rules::step_result result) {
        self->state.deliveries.admit_and_settle({.what = delivery::kind::assembled}, [self, result](const delivery&) {
          auto& first = self->state.reports.front();
          self->state.work_on_first = report_work::none;
          first.result = snapshot{{.step = first.line.step}, result.values};
          self->state.totals.note_distances(result, first.line);
          process(self);
          write_checkpoint_if_complete(self);
        });
      });
}

/// Continues the assembly with the answers of all servers.
void take_held(coordinator_pointer self, const replicas_by_rank& replicas, const std::vector<holding>& held) {
  auto& my = self->state;
  std::vector<span> shares;
  for (const auto& share : held)
    if (share.piece.values.defined()) shares.push_back(share.piece);
  my.totals.count_updates(held, !my.options.holder_weights.empty(), my.reports.front().line);
  assemble(self, replicas, std::move(shares));
}

/// Assembles the result of the first report with the parameters that the servers hold.
void collect(coordinator_pointer self, const replicas_by_rank& replicas) {
  auto& my = self->state;
  my.work_on_first = report_work::assembling;
  auto held = std::make_shared<std::vector<holding>>(my.options.holders.size());
  auto open = std::make_shared<std::size_t>(held->size());
  for (std::size_t i = 0; i < held->size(); ++i)
    self->request(my.options.holders[i], my.options.timeout, result_atom_v, my.reports.front().line.step)
        .then(
            [self, replicas, held, open, i](const holding& answer) {
              const delivery arrival{.what = delivery::kind::result, .from = static_cast<std::uint32_t>(i)};
              self->state.deliveries.admit_and_settle(arrival,
                                                      [self, replicas, held, open, i, answer](const delivery&) {
                                                        (*held)[i] = answer;
                                                        if (--*open == 0) take_held(self, replicas, *held);
                                                      });
            },
            [self](const caf::error& why) { self->quit(make_error(errc::peer_lost, "server: " + describe(why))); });
}

/// Takes an evaluation of the first report; nothing if it was cancelled.
void take_evaluation(coordinator_pointer self, const std::optional<evaluation>& found) {
  constexpr std::uint32_t complete = 0, cancelled = 1;
  const delivery arrival{.what = delivery::kind::evaluated, .part = found ? complete : cancelled};
  self->state.deliveries.admit_and_settle(arrival, [self, found](const delivery& recorded) {
    self->state.work_on_first = report_work::none;
    if (recorded.part == complete) self->state.reports.front().take(*found);
    process(self);
  });
}

}  // namespace

void evaluate(coordinator_pointer self, const snapshot& weights) {
  auto& my = self->state;
  TROUPE_ASSERT(my.work_on_first == report_work::none, "COORDINATOR-1: one report at a time");
  my.work_on_first = report_work::evaluating;
  // No deadline: an evaluation takes as long as the validation set is large. The supervisor notices an evaluator that
  // dies.
  self->request(my.evaluator, caf::infinite, evaluate_atom_v, weights)
      .then([self](const evaluation& result) { take_evaluation(self, result); },
            [self](const caf::error& why) {
              if (!self->state.interrupted())
                return self->quit(make_error(errc::peer_lost, "evaluator: " + describe(why)));
              take_evaluation(self, std::nullopt);
            });
}

bool begin_result(coordinator_pointer self, bool whole) {
  auto& my = self->state;
  const auto replicas = whole ? replicas_of_first(my) : replicas_by_rank{};
  if (!replicas) return false;
  if (my.options.evaluates_replicas)
    for (const auto& [rank, replica] : *replicas) my.reports.front().replicas.push_back(replica);
  if (my.options.holders.empty())
    assemble(self, *replicas, {});
  else
    collect(self, *replicas);
  return true;
}

}  // namespace troupe
