// The coordinator grants steps to the workers, collects their reports, has results evaluated, recorded and saved, and
// ends the run in good order, even when it ends early. It handles no gradients and no exchanges.
#pragma once

#include "troupe/actors/coordinator/verdicts.hpp"
#include "troupe/actors/port/port.hpp"
#include "troupe/actors/replay/deliveries.hpp"
#include "troupe/actors/service/evaluator.hpp"
#include "troupe/actors/service/recorder.hpp"
#include "troupe/actors/wire/control_messages.hpp"
#include "troupe/actors/wire/steering.hpp"
#include "troupe/actors/wire/type_ids.hpp"
#include "troupe/algorithms/messages/run_state.hpp"
#include "troupe/algorithms/rules/learning_rate.hpp"
#include "troupe/algorithms/rules/schedule.hpp"
#include "troupe/models/storage/buffer_pool.hpp"
#include "troupe/models/storage/flat.hpp"

#include <caf/fwd.hpp>
#include <caf/typed_actor.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// A worker as its coordinator sees it.
/// restore: continue from that state. Sent before the first step; answered by control::restored.
using directed_worker = control::handler_of<control::to_worker>::extend<caf::reacts_to<restore_atom, state_dict>>;

/// A coordinator as a worker sees it, possibly from another node.
using milestone_sink = control::handler_of<control::to_coordinator>;

/// Tensors sent to a coordinator. Between nodes they travel separately from numbers, so they may arrive before or after
/// the corresponding milestone.
/// result: a worker's parameters after an evaluated step or after the last step; sent by rank 0, or by all workers if
///         their parameters differ.
/// state:  a worker's state, in answer to the request with this number. It follows all results that the worker sent
///         earlier.
using snapshot_sink = caf::typed_actor<caf::reacts_to<result_atom, snapshot>,
                                       caf::reacts_to<state_atom, rank_id, std::uint64_t, state_dict>>;

/// wire: starts the run.
/// halt: ends the run at the next step that all workers can complete; saves the result without a further evaluation.
/// tick: sent by the actor to itself when max_seconds have passed.
/// steering_order: an order of a guest.
/// The actor ends normally when everything is recorded.
using coordinator_actor = milestone_sink::extend<
    caf::reacts_to<result_atom, snapshot>, caf::reacts_to<state_atom, rank_id, std::uint64_t, state_dict>,
    caf::reacts_to<wire_atom, std::vector<directed_worker>>, caf::reacts_to<halt_atom>, caf::reacts_to<tick_atom>,
    caf::reacts_to<steering_order>, caf::reacts_to<done_atom, completion>>;

/// A server of an exchange, under its name in run_state::actors.
struct named_server {
  std::string name;
  holder_actor server;
};

struct coordinator_options {
  schedule when;
  std::uint32_t workers{1};
  /// Number of workers that send their parameters for a step; 0 if servers hold the complete result.
  std::size_t replicas{1};
  /// Whether the parameters of all workers are equal after a step; otherwise their average is the result.
  bool replicas_agree{true};
  /// Servers that hold the result's parameters, in the order of their shares; empty if the workers hold them.
  std::vector<holder_actor> holders{};
  /// Weights indexed by holder. If not empty, each holder has the complete result and the weighted mean is used;
  /// otherwise each has a share of it.
  std::vector<std::int64_t> holder_weights{};
  /// All servers of all exchanges, including those that do not hold the result. Their states are part of a checkpoint.
  std::vector<named_server> servers{};
  /// The state from which the run continues; null for a new run.
  std::shared_ptr<const run_state> restored{};
  bool evaluates_replicas{false};  ///< Whether each worker's snapshot is also evaluated.
  /// Whether all workers end at the same step; otherwise, if the run ends early, each ends at the step it has reached.
  bool in_lockstep{true};
  /// Maximum number of batches per assignment if all workers draw from one queue until they have made
  /// workers · when.steps steps together; 0 if each makes when.steps steps with batches of its own.
  std::uint32_t batches_at_once{0};
  std::uint32_t block{
      1};  ///< Number of batches that a worker should draw together: the steps between two of its merges.
  models::flat_layout layout{};
  models::buffer_pool pool{};
  /// Whether the result contains the float buffers of rank 0; otherwise it contains their mean.
  bool first_buffers{false};
  bool pauses{false};  ///< Whether workers wait for each evaluation even if its verdict cannot stop them.
  rules::stop_options stop{};
  std::optional<std::chrono::milliseconds> max_seconds{};
  std::chrono::milliseconds timeout{60'000};
  delivery_order deliveries{};   ///< How the order of its input is recorded or, in a replay, repeated.
  double lr{0};                  ///< Learning rate before the schedule is applied.
  learning_rate lr_over_time{};  ///< Schedule factor applied to the learning rate, for the record.
};

coordinator_actor spawn_coordinator(caf::actor_system& system, coordinator_options options, evaluator_actor evaluator,
                                    recorder_actor recorder, std::unique_ptr<lane> where);

}  // namespace troupe
