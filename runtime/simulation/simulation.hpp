// A run under CAF's test coordinator: the same actors as on a node, executed one message at a time, in virtual time, in
// an order drawn from a seed. Jobs of lanes that wait for their owner run on threads, but only one thread runs at a
// time. Equal seeds give equal orders, so that a failure can be reproduced from its seed.
#pragma once

#include "troupe/algorithms/messages/journal.hpp"
#include "troupe/runtime/launch/launcher.hpp"
#include "troupe/runtime/node/node.hpp"
#include "troupe/runtime/plan/plan.hpp"
#include "troupe/runtime/simulation/simulated_lanes.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>

namespace troupe {

/// Options of a simulated run.
struct simulation_options {
  std::uint64_t seed{0};                           ///< Seed of the schedule; the seed of the run is in the plan.
  std::chrono::microseconds longest_job{100'000};  ///< Each job of a lane takes a random virtual time up to this limit.
  /// Returns the virtual time that a task takes on the lane of this actor; if empty, the time is random.
  std::function<std::chrono::microseconds(const actor_label& actor, const task&)> duration_of{};
  decltype(simulated_lane_options::slowdown_of) slowdown_of{};  ///< See simulated_lane_options::slowdown_of.
  /// Called after each message with the number of messages so far: to interrupt, inject a fault or check invariants.
  std::function<void(const crew&, std::uint64_t)> after_event{};
  std::shared_ptr<const run_state> restored{};  ///< The state from which the run continues, if it does not start.
  const std::atomic<int>* signal{nullptr};      ///< The signal that interrupts the run, once it is not 0; or null.
  /// See simulated_lane_options::cores_of.
  decltype(simulated_lane_options::cores_of) cores_of{};
  std::shared_ptr<emulation::network> links{};              ///< The emulated links, or null.
  decltype(simulated_lane_options::listen_to) listen_to{};  ///< See simulated_lane_options::listen_to.
  std::shared_ptr<trace_sink> trace{};                      ///< Where jobs, workers and ports are reported, or null.
  /// Whether only jobs are reported, at the times at which they are done on this machine rather than in virtual time.
  bool traces_real_time{false};
  bool computes{true};  ///< See replica_options::computes.
  /// Set to the virtual time as it advances; null if it is not needed.
  std::shared_ptr<std::chrono::nanoseconds> clock{};
  decltype(launch_options::open_device) open_device{};
  launch_deliveries deliveries{};                  ///< See launch_options::deliveries.
  std::function<void(const crew&)> after_begin{};  ///< Called before the first message is handled.
  /// Called if nothing happens any more, or nothing within `longest_wait` of virtual time: returns whether to go on.
  std::function<bool(const crew&)> on_stall{};
  std::chrono::hours longest_wait{1'000'000};
  std::uint64_t most_events{10'000'000};  ///< A run with more messages is considered hung.
  std::uint64_t stop_after{0};            ///< Number of messages after which the simulation stops; 0 for none.
};

/// Throws std::runtime_error if `now` is more than a hundred years: a clock of nanoseconds ends after 292 years.
void check_virtual_time(std::chrono::nanoseconds now);

/// Nothing happens any more in a simulated run that has not ended.
struct simulation_stalled : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Simulates a run and returns how it ended. Throws simulation_stalled or std::runtime_error, naming the seed, if the
/// run does not end.
run_end simulate(const plan& plan, const data::dataset_pair& data, at::Tensor initial, models::buffer_pool pool,
                 std::shared_ptr<journal> book, const simulation_options& options);

}  // namespace troupe
