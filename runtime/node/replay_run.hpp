// A run as `troupe replay` repeats it: all actors in one process, each of which takes in what it took in when the run
// was recorded, in the same order.
#pragma once

#include "troupe/actors/journal.hpp"
#include "troupe/actors/support/trace.hpp"
#include "troupe/runtime/node/run_end.hpp"
#include "troupe/runtime/plan/plan.hpp"
#include "troupe/runtime/recording/deliveries_file.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

namespace troupe {

struct replay_end {
  run_end end;
  /// If the replay was ended before the recorded run: the steps that every worker had completed.
  std::optional<std::uint64_t> cut_at{};
};

/// Replays a run until every worker has completed `until` steps, or to the end of its recording. If that is incomplete,
/// the run is then ended as by an interrupt. `trace` receives the jobs, at the times at which this machine does them. A
/// difference from the recording is a failure that names it.
replay_end replay_run(plan plan, const data::dataset_pair& data, at::Tensor initial, models::buffer_pool pool,
                      std::shared_ptr<journal> book, const recording::contents& recorded,
                      std::optional<std::uint64_t> until, const std::atomic<int>* signal = nullptr,
                      std::shared_ptr<trace_sink> trace = nullptr);

}  // namespace troupe
