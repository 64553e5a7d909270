// A node: an actor system with threads, a supervisor in it, and someone who waits: for the end, or for a signal.
#pragma once

#include "troupe/actors/journal.hpp"
#include "troupe/runtime/node/run_end.hpp"
#include "troupe/runtime/node/signals.hpp"
#include "troupe/runtime/plan/plan.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace troupe {

struct node_options {
  std::uint32_t node{0};       ///< Which of the plan's.
  at::Tensor initial{};        ///< See initial_weights().
  models::buffer_pool pool{};  ///< What `initial` came from.
  /// Opens the journal of the first node, once nothing that can be known before is in the way of the run; the others
  /// keep none.
  std::function<std::shared_ptr<journal>()> open_book{};
  /// The other nodes are started at the same time by the same command: `say` hears of a missing one only after a while,
  /// and run.timeout bounds the wait too.
  bool together{false};
  /// Receives a line about each node that joins, and about the missing ones; from any thread, one at a time.
  std::function<void(const std::string&)> say = [](const auto&) {};
};

/// Runs one node's part of the plan to the end of the run; the other nodes may be started before or after it. Every
/// actor, thread and socket it started is gone when it returns. Throws input_error where it cannot listen, what
/// open_book throws, or where the first node is of another version; std::runtime_error where that does not appear.
run_end run(const plan& plan, const data::dataset_pair& data, node_options options, signal_watch& signals);

}  // namespace troupe
