// The coordinator: grants the workers their steps, collects what they report, has the result evaluated, recorded and
// saved, and ends the run in good order, also before its time. It sees no gradient and no exchange.
#pragma once

#include "troupe/actors/evaluator.hpp"
#include "troupe/actors/port.hpp"
#include "troupe/actors/recorder.hpp"
#include "troupe/actors/rules/learning_rate.hpp"
#include "troupe/actors/rules/schedule.hpp"
#include "troupe/actors/type_ids.hpp"
#include "troupe/models/buffer_pool.hpp"
#include "troupe/models/flat.hpp"

#include <caf/fwd.hpp>
#include <caf/typed_actor.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace troupe {

/// What a coordinator says to a worker.
/// proceed: steps may be begun until this many are completed.
/// halt:    begin no further step; answers how many will be completed by what has begun.
/// finish:  the run ends at this many completed steps; a milestone there is owed.
using directed_worker =
    caf::typed_actor<caf::reacts_to<proceed_atom, std::uint64_t>, caf::replies_to<halt_atom>::with<std::uint64_t>,
                     caf::reacts_to<finish_atom, std::uint64_t>>;

/// What others say to a coordinator: numbers, which may come from another node …
/// reached: a worker has completed a step that was to be reported.
/// halt:    ends the run at the next step that all workers can complete; saves, evaluates no more.
using milestone_sink = caf::typed_actor<caf::reacts_to<reached_atom, milestone>, caf::reacts_to<halt_atom>>;

/// … and tensors, which between nodes take a way of their own, and so may come before or after the milestone.
/// result: a worker's parameters after a step that is evaluated, or the last; from rank 0, or from all where they
/// differ.
using snapshot_sink = caf::typed_actor<caf::reacts_to<result_atom, snapshot>>;

/// wire: begins the run.
/// tick: from itself, when max_seconds are over.
/// The actor ends normally when all is recorded.
using coordinator_actor = milestone_sink::extend<caf::reacts_to<result_atom, snapshot>,
                                                 caf::reacts_to<wire_atom, std::vector<directed_worker>>,
                                                 caf::reacts_to<tick_atom>, caf::reacts_to<done_atom, completion>>;

struct coordinator_options {
  schedule when;
  std::uint32_t workers{1};
  std::size_t replicas{1};    ///< Workers that show a step; none where servers hold all of the result.
  bool replicas_agree{true};  ///< The parameters of all workers after a step are equal; else their average counts.
  /// Servers that hold the result's parameters, in the order of their shares; none: they are the workers' own.
  std::vector<holder_actor> holders{};
  /// By holder: each has all of the result, which is their mean with these weights; empty: each has a share of it.
  std::vector<std::int64_t> holder_weights{};
  bool in_lockstep{true};  ///< All workers end at one step; else, before its time, each where it has come to.
  models::flat_layout layout{};
  models::buffer_pool pool{};
  bool first_buffers{false};                ///< The result has the float buffers of rank 0; else their mean.
  bool pauses{false};                       ///< Workers wait for each evaluation, even if its verdict cannot stop them.
  std::optional<double> target_accuracy{};  ///< Stop once reached in `target_hold` evaluations in a row.
  std::uint64_t target_hold{2};
  std::optional<std::uint64_t> patience{};  ///< Stop after so many evaluations in a row that are no better than before.
  std::optional<std::chrono::milliseconds> max_seconds{};
  std::chrono::milliseconds timeout{60'000};
  double lr{0};                  ///< Before its schedule.
  learning_rate lr_over_time{};  ///< What it is multiplied by, for the record.
};

coordinator_actor spawn_coordinator(caf::actor_system& system, coordinator_options options, evaluator_actor evaluator,
                                    recorder_actor recorder, std::unique_ptr<lane> where);

}  // namespace troupe
