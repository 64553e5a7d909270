// A run as `troupe simulate` performs it: with the durations, links and faults that the topology file describes.
#pragma once

#include "troupe/algorithms/messages/journal.hpp"
#include "troupe/runtime/plan/plan.hpp"
#include "troupe/runtime/simulation/simulation.hpp"
#include "troupe/runtime/supervision/run_end.hpp"

#include <memory>

namespace troupe {

/// Sets the durations that the plan leaves open: with simulate.gradient = "measure", measures a gradient on this
/// machine and replaces "measure" with the result.
void settle_durations(plan& plan, const data::dataset_pair& data, const at::Tensor& initial, models::buffer_pool pool);

/// Simulates a run with settled durations. The same plan and seed give the same bytes of everything that is written to
/// `journal`. The options for lanes, faults and the network are set from the plan, and so is `links` unless it is
/// given. If nothing is computed, no weights are written. Throws std::runtime_error if the run does not end.
run_end simulate_run(const plan& plan, const data::dataset_pair& data, at::Tensor initial, models::buffer_pool pool,
                     std::shared_ptr<journal> journal, simulation_options options);

/// Simulates only the timing of such a run: nothing is computed or kept. Returns the last line of its metrics. Throws
/// std::runtime_error if the run fails or is interrupted.
record simulate_timing(const plan& plan, const data::dataset_pair& data, const at::Tensor& initial,
                       const models::buffer_pool& pool, simulation_options options);

}  // namespace troupe
