// The comparison of a simulated run with a real one: `troupe simulate FILE --against DIR`.
#pragma once

#include "troupe/runtime/simulation/simulate_run.hpp"
#include "troupe/tools/comparing/calibration.hpp"

#include <chrono>
#include <filesystem>

namespace troupe::apps {

/// Simulates the timing of a run in which a gradient takes the time `gradient`, without computing or writing anything.
comparing::run_figures timing_of(plan plan, const data::dataset_pair& data, const at::Tensor& initial,
                                 const models::buffer_pool& pool, simulation_options how,
                                 std::chrono::microseconds gradient);

/// Prints how far the simulated run of `plan` in the folder `simulated` is from the real one in `folder`, and why.
void print_against(const std::filesystem::path& folder, const comparing::run_figures& real,
                   const std::filesystem::path& simulated, const plan& plan, const comparing::simulate_timing& simulate,
                   bool json);

}  // namespace troupe::apps
