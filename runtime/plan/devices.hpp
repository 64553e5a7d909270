// Assigns a device to each worker of a plan, and checks what the devices support.
#pragma once

#include "troupe/algorithms/device/device.hpp"
#include "troupe/runtime/plan/stages.hpp"

#include <c10/core/Device.h>

#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// Assigns the devices of workers.device to the workers of each of the `nodes` in turn. "auto" and "cuda" stand for the
/// GPUs of `machine`; "auto" stands for the CPU if there are none. Throws input_error, naming the requested device, the
/// available devices and a fix.
std::vector<c10::Device> deal_devices(const planned_data& so_far, const std::vector<planned_node>& nodes,
                                      const device::census& machine);

/// Returns the ranks of two workers of one process that share a GPU, or nothing.
std::optional<std::pair<std::uint32_t, std::uint32_t>> sharing_a_gpu(const planned_work& plan,
                                                                     const std::vector<std::uint32_t>& ranks);

/// Throws input_error if the workers of an exchange, on their nodes and on the devices of `machine`, cannot share a
/// memory or use the GPUs' own library, as the exchange requires.
void check_carrier(const planned_exchanges& so_far, const planned_exchange& exchange, const device::census& machine);

/// Describes devices, such as "cpu", "cuda:0" or "cuda:0 (2 workers), cuda:1 (2 workers)".
std::string devices_text(const std::vector<c10::Device>& devices);

}  // namespace troupe
