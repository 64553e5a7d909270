// The worker owns the current snapshot and executes the loop. It computes nothing and does not depend on the algorithm,
// except that an answer may let it skip steps: an exchange that refused its gradient states at which step the worker
// continues.
#pragma once

#include "troupe/actors/compute/compute.hpp"
#include "troupe/actors/coordinator/coordinator.hpp"
#include "troupe/actors/port/port.hpp"
#include "troupe/actors/worker/worker_gate.hpp"
#include "troupe/algorithms/rules/loop.hpp"
#include "troupe/algorithms/support/trace.hpp"

#include <caf/fwd.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

using worker_actor = directed_worker;

struct worker_options {
  run_id run{};
  rank_id rank{};
  std::vector<loop_word> loop;
  std::vector<std::string> exchanges{};  ///< Names of all exchanges by place, for the states of the ports.
  schedule when;
  snapshot initial;
  std::chrono::milliseconds timeout{60'000};
  /// Maximum number of steps per request to compute: few enough to stop soon, many enough that the thread wake-up per
  /// request is negligible.
  std::uint32_t steps_at_once{16};
  /// Whether to keep the contribution to the last exchange of parameters and send it with each result.
  bool shows_contributions{false};
  bool draws_from_queue{false};  ///< Whether the coordinator assigns the batches of a queue; see directed_worker.
  /// Whether its compute actor waits for other workers within a step. If so, it may take twice `timeout` per step.
  bool synchronised_norms{false};
  std::shared_ptr<worker_gate> gate{};    ///< Replay only; null in any other run.
  std::shared_ptr<rate_changes> rates{};  ///< Where changes of the learning rate are noted; may be null.
  trace_track track{};                    ///< Where its waits are reported if the run is traced.
  std::function<void(std::uint64_t completed)> on_step{};  ///< Called when it has completed more steps; may be empty.
};

/// Actors a worker communicates with. Coordinator and recorder may be on another node.
struct worker_contacts {
  compute_actor compute{};
  std::vector<port_actor> ports{};  ///< Ports by place of the exchange; empty where the worker is not a member.
  milestone_sink coordinator{};
  snapshot_sink results{};  ///< Receives results to evaluate or save; empty if another worker's result is identical.
  snapshot_sink states{};   ///< Receives the worker's state; always set.
  progress_sink recorder{};
};

worker_actor spawn_worker(caf::actor_system& system, worker_options options, worker_contacts contacts);

}  // namespace troupe
