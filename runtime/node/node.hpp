// A node: an actor system with threads, a crew in it, and someone who waits: for the end, for an actor that dies, for a
// signal.
#pragma once

#include "troupe/actors/journal.hpp"
#include "troupe/runtime/node/signals.hpp"
#include "troupe/runtime/plan/plan.hpp"

#include <memory>
#include <optional>
#include <string>

namespace troupe {

/// How a run ended.
struct run_end {
  std::optional<std::string> failure;  ///< "worker 2: …": who failed first, and why.
  int signal{0};                       ///< What interrupted it, or 0.
  /// 0 done, 1 failed, 128 + signal interrupted.
  int status() const { return failure ? 1 : signal != 0 ? 128 + signal : 0; }
};

/// Runs the plan to its end. `initial`: see initial_weights(). Every actor and thread it started has ended when it
/// returns.
run_end run(const plan& plan, const data::dataset_pair& data, at::Tensor initial, models::buffer_pool pool,
            std::shared_ptr<journal> book, signal_watch& signals);

}  // namespace troupe
