// A node: an actor system with threads and a supervisor, and a thread that waits for the end of the run or a signal.
#pragma once

#include "troupe/algorithms/messages/journal.hpp"
#include "troupe/algorithms/messages/run_state.hpp"
#include "troupe/net/channels/endpoint.hpp"
#include "troupe/runtime/guests/entrance.hpp"
#include "troupe/runtime/launch/channels_of_plan.hpp"
#include "troupe/runtime/launch/launcher.hpp"
#include "troupe/runtime/node/signals.hpp"
#include "troupe/runtime/plan/plan.hpp"
#include "troupe/runtime/supervision/run_end.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// How guests reach a node.
struct guest_access {
  endpoint listen;      ///< Where the node listens if it is the only one; otherwise, guests use the port of the node.
  guest_rights rights;  ///< See channels_of().
  /// Called once, after the journal is open, with the address at which guests reach this node and the seats for actors
  /// of exchanges, by exchange.
  std::function<std::shared_ptr<guests::entrance>(const endpoint& where,
                                                  std::vector<std::shared_ptr<guests::seat>> seats)>
      open{};
  /// Called when the run has ended, before its guests are disconnected.
  std::function<void()> conclude{};
};

struct node_options {
  std::uint32_t node{0};       ///< Index of this node in the plan.
  at::Tensor initial{};        ///< Initial weights; see initial_weights().
  models::buffer_pool pool{};  ///< The pool that `initial` was taken from.
  /// The state from which the run continues, or null. Only on the first node.
  std::shared_ptr<const run_state> restored{};
  /// Opens the journal. Called on the first node only, after all checks that can be made in advance.
  std::function<std::shared_ptr<journal>()> open_journal{};
  /// Opens the recording of the deliveries of the run, after the journal; empty if they are not recorded.
  std::function<launch_deliveries()> open_recording{};
  std::shared_ptr<trace_sink> trace{};  ///< Where actors and lanes report what they do; null if the run is not traced.
  /// The network on which links are emulated and traffic is counted: make_network(), for this run only. If null, run()
  /// makes one.
  std::shared_ptr<emulation::network> network{};
  bool continues{false};  ///< Whether --resume was given, to the first node or to the one that keeps copies.
  /// Writes a copy of a checkpoint, on the node that keeps copies; see plan::keeps_copies. Must not throw.
  std::function<void(const state_dict& files)> keep_copy{};
  /// Whether one command starts all nodes at the same time. Missing nodes are then reported only after ten seconds, and
  /// run.timeout limits the wait in addition to run.join_timeout.
  bool together{false};
  std::optional<guest_access> guests{};  ///< Only on the first node; empty if the run has no guests.
  /// Reports, one line at a time, which nodes have joined and which are missing. Called from any thread, but never
  /// concurrently.
  std::function<void(const std::string&)> report = [](const auto&) {};
};

/// Runs one node's part of the plan to the end of the run. The other nodes may be started before or after this one.
/// When it returns, every actor, thread and socket it started is gone. Throws input_error if it cannot listen or the
/// first node runs a different version, std::runtime_error if the first node cannot be reached, and any exception of
/// open_journal.
run_end run(const plan& plan, const data::dataset_pair& data, node_options options, signal_watch& signals);

}  // namespace troupe
