// A run as `troupe replay` repeats it: all actors run in one process, and each accepts the same messages in the same
// order as when the run was recorded.
#pragma once

#include "troupe/algorithms/messages/journal.hpp"
#include "troupe/algorithms/messages/run_state.hpp"
#include "troupe/algorithms/support/trace.hpp"
#include "troupe/runtime/plan/plan.hpp"
#include "troupe/runtime/recording/deliveries_file.hpp"
#include "troupe/runtime/supervision/run_end.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

namespace troupe {

struct replay_options {
  const recording::contents& recorded;
  std::shared_ptr<const run_state> from{};  ///< The state with which the recording begins; null for a new run.
  std::optional<std::uint64_t> until{};     ///< Number of steps of every worker after which the replay ends.
  const std::atomic<int>* signal{nullptr};  ///< See simulation_options::signal.
  std::shared_ptr<trace_sink> trace{};      ///< Receives the jobs, in real time; null if there is no trace.
};

struct replay_end {
  run_end end;
  /// Number of steps that every worker had completed, if the replay ended before the recorded run.
  std::optional<std::uint64_t> cut_at{};
};

/// Replays a run until every worker has completed `until` steps, or to the end of its recording. If an actor needs a
/// message that was not recorded, the replay ends as if it had been interrupted. If the replay differs from the
/// recording, it fails and names the difference.
replay_end replay_run(plan plan, const data::dataset_pair& data, at::Tensor initial, models::buffer_pool pool,
                      std::shared_ptr<journal> journal, replay_options options);

}  // namespace troupe
