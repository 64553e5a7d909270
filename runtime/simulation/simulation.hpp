// A run in virtual time, with the same supervisors, crews and links as a deployed run. Each node has its own actor
// system under CAF's test coordinator, and only a simulated network connects the nodes. One message is handled at a
// time, in an order drawn from a seed, so that a failure can be reproduced from its seed and a fault can be injected
// before any message and repeated. Jobs of lanes that wait for their owner run on threads, but only one thread runs at
// a time.
#pragma once

#include "troupe/algorithms/messages/journal.hpp"
#include "troupe/algorithms/support/trace.hpp"
#include "troupe/runtime/launch/launcher.hpp"
#include "troupe/runtime/plan/plan.hpp"
#include "troupe/runtime/simulation/fault_times.hpp"
#include "troupe/runtime/simulation/simulated_lanes.hpp"
#include "troupe/runtime/supervision/run_end.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace troupe {

/// Options of a simulated run.
struct simulation_options {
  std::uint64_t seed{0};             ///< Seed of the schedule and the network; the seed of the run is in the plan.
  bool on_one_node{false};           ///< Whether all actors are spawned on one node, whatever nodes the plan has.
  std::vector<node_fault> faults{};  ///< Injected if there are several nodes.
  simulated_lane_options lanes{.longest_job = std::chrono::microseconds{10'000}};  ///< Lanes of every node.
  std::chrono::microseconds latency{1'000};     ///< Each message takes a random virtual time up to this one.
  std::int64_t window{2 << 20};                 ///< See transport::tcp_options::window_bytes.
  bool computes{true};                          ///< See replica_options::computes.
  std::shared_ptr<emulation::network> links{};  ///< The emulated links, or null.
  std::shared_ptr<trace_sink> trace{};          ///< Where jobs, workers and ports are reported, or null.
  /// Whether only jobs are reported, at the times at which they are done on this machine rather than in virtual time.
  bool traces_real_time{false};
  std::shared_ptr<const run_state> restored{};  ///< The state from which the run continues; null for a new run.
  decltype(launch_options::open_device) open_device{};
  launch_deliveries deliveries{};           ///< See launch_options::deliveries.
  const std::atomic<int>* signal{nullptr};  ///< Interrupts the first node once it is not 0; may be null.
  /// Set to the virtual time as it advances; null if it is not needed.
  std::shared_ptr<std::chrono::nanoseconds> clock{};
  std::uint64_t stop_after{0};                 ///< Number of events after which the simulation stops; 0 for none.
  std::uint64_t most_events{10'000'000};       ///< A run with more events is considered hung.
  std::chrono::hours longest_wait{1'000'000};  ///< A run in which nothing happens for this long has stalled.

  // Callbacks with the actors of the first node, from the beginning of training until that node ends:
  std::function<void(const crew&)> after_begin{};  ///< Called before any of its actors handles a message.
  /// Called after each event with the number of events so far, to interrupt, inject a fault or check invariants.
  std::function<void(const crew&, std::uint64_t)> after_event{};
  std::function<bool(const crew&)> on_stall{};  ///< Called when the run has stalled; returns whether to continue.
};

/// How a simulated run ended.
struct simulated_end {
  struct node {
    std::optional<run_end> end;        ///< Empty if the node was killed, or was frozen when the others had ended.
    std::vector<std::string> reports;  ///< What the node reported to its user.
    std::chrono::microseconds ended_at{0};
  };
  std::vector<node> nodes;                  ///< By index in the plan.
  std::uint64_t messages{0};                ///< Number of messages delivered between nodes.
  std::uint64_t events{0};                  ///< Number of messages that were handled, by actors or by links.
  std::chrono::microseconds faulted_at{0};  ///< Virtual time of the last fault.
  std::set<std::size_t> not_injected;       ///< Faults before which the run ended, by index in the plan.
};

/// Thrown if nothing happens any more in a simulated run that has not ended.
struct simulation_stalled : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Simulates a run of all nodes of the plan. `journal` is the journal of the first node. Throws simulation_stalled or
/// std::runtime_error, naming the seed, if a node that is neither killed nor frozen does not end, except after
/// stop_after events. Throws input_error for exchanges by a device's library, whose calls wait for each other on the
/// GPUs.
simulated_end simulate_nodes(const plan& plan, const data::dataset_pair& data, at::Tensor initial,
                             models::buffer_pool pool, std::shared_ptr<journal> journal,
                             const simulation_options& options);

/// Simulates a run like simulate_nodes(). Returns how the run ended on the first node that is left.
run_end simulate(const plan& plan, const data::dataset_pair& data, at::Tensor initial, models::buffer_pool pool,
                 std::shared_ptr<journal> journal, const simulation_options& options);

}  // namespace troupe
