// The wirings with which whole runs on tiny_data() are tested.
#pragma once

#include "tests/support/tiny.hpp"

#include "troupe/runtime/launch/launcher.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace troupe::tests {

/// Returns the wirings whose result is a function of the file. The first has no exchange. Then follow star (whole, by
/// parameter) and the routes of all_reduce (direct, chain, auto, ring).
const std::vector<tiny_options>& deterministic_wirings();

/// Returns the wirings whose result depends on the order of arrival: parameter_server, elastic, shared.
const std::vector<tiny_options>& asynchronous_wirings();

/// Interrupts a simulated run after this event: see simulation_options::after_event.
std::function<void(const crew&, std::uint64_t)> interrupt_at(std::uint64_t event);

/// Returns durations with which the compute actor of this worker answers long after every deadline: see
/// simulated_lane_options::duration_of.
std::function<std::chrono::microseconds(const actor_label&, const task&)> silent_compute(std::uint32_t rank);

/// Returns the name of a wiring for failed checks.
std::string name_of(const tiny_options& options);

}  // namespace troupe::tests
