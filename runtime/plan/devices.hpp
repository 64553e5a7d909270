// Which device each worker of a plan computes on, and what cannot be had there.
#pragma once

#include "troupe/actors/device/device.hpp"
#include "troupe/runtime/plan/plan.hpp"

#include <c10/core/Device.h>

#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// Deals workers.device to the workers of each node, in turn: "auto" and "cuda" stand for the GPUs of `machine`, "auto"
/// for the CPU where there are none. Throws input_error: what was asked for, what there is, and the mend.
std::vector<c10::Device> deal_devices(const plan& so_far, const device::census& machine);

/// Says why the devices of the plan cannot carry an exchange that runs in the GPUs' own library, or nothing.
std::optional<std::string> refusal_of_collective(const plan& plan, const planned_exchange& exchange,
                                                 const device::census& machine);

/// Returns two workers of one process that share a GPU, by rank, or nothing.
std::optional<std::pair<std::uint32_t, std::uint32_t>> sharing_a_gpu(const plan& plan,
                                                                     const std::vector<std::uint32_t>& ranks);

/// "cpu", "cuda:0", "cuda:0 (2 workers), cuda:1 (2 workers)".
std::string devices_text(const std::vector<c10::Device>& devices);

}  // namespace troupe
