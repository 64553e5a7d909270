// A run as `troupe simulate` performs it: the actors of all nodes in one process and in virtual time, with the
// durations and links that the topology file describes.
#pragma once

#include "troupe/algorithms/messages/journal.hpp"
#include "troupe/algorithms/support/trace.hpp"
#include "troupe/runtime/plan/plan.hpp"
#include "troupe/runtime/supervision/run_end.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

namespace troupe::emulation {
class network;
}

namespace troupe {

struct simulate_run_options {
  std::uint64_t seed{0};                    ///< Seed of the schedule, of jitter and of losses.
  bool computes{true};                      ///< Whether gradients are computed; otherwise no weights are written.
  const std::atomic<int>* signal{nullptr};  ///< See simulation_options::signal.
  std::uint64_t stop_after{0};              ///< Number of messages after which the simulation stops; 0 for none.
  std::shared_ptr<std::chrono::nanoseconds> clock{};  ///< See simulation_options::clock.
  std::shared_ptr<trace_sink> trace{};                ///< Where jobs, workers, ports and links are reported, or null.
  std::shared_ptr<emulation::network> network{};      ///< See node_options::network; with `seed` and `trace`.
};

/// Settles what the plan leaves open: with simulate.gradient = "measure", measures it on this machine and sets it.
void settle_durations(plan& plan, const data::dataset_pair& data, const at::Tensor& initial, models::buffer_pool pool);

/// Simulates a run with settled durations. The same plan and seed give the same bytes of everything that `book` is
/// given. Throws std::runtime_error if the run does not end.
run_end simulate_run(const plan& plan, const data::dataset_pair& data, at::Tensor initial, models::buffer_pool pool,
                     std::shared_ptr<journal> book, const simulate_run_options& options);

/// Simulates the timing of such a run: nothing is computed or kept. Returns its last line. Throws std::runtime_error if
/// the run fails or is interrupted.
record simulate_timing(const plan& plan, const data::dataset_pair& data, const at::Tensor& initial,
                       const models::buffer_pool& pool, simulate_run_options options);

}  // namespace troupe
