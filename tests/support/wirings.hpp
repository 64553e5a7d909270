// The wirings with which whole runs are tested, on tiny_data().
#pragma once

#include "tests/support/tiny.hpp"

#include "troupe/runtime/launch/launcher.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace troupe::tests {

/// Those whose result is a function of the file. The first has no exchange, then come star (whole, by parameter) and
/// the routes of all_reduce (direct, chain, auto, ring).
const std::vector<tiny_options>& deterministic_wirings();

/// Those whose result depends on what comes first: parameter_server, elastic, shared.
const std::vector<tiny_options>& asynchronous_wirings();

/// Interrupts a simulated run after this event: simulation_options::after_event.
std::function<void(const crew&, std::uint64_t)> interrupt_at(std::uint64_t event);

/// Durations with which the compute actor of this worker answers long after every deadline:
/// simulated_lane_options::duration_of.
std::function<std::chrono::microseconds(const actor_label&, const task&)> silent_compute(std::uint32_t rank);

/// What a failed check calls a wiring.
std::string name_of(const tiny_options& options);

}  // namespace troupe::tests
