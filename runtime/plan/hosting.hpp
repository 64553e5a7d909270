// Checks that the placement of the workers allows what runs an exchange: see troupe::hosting.
#pragma once

#include "troupe/actors/device/device.hpp"
#include "troupe/runtime/plan/plan.hpp"

namespace troupe {

/// Throws input_error if the workers of an exchange, on their nodes and on the devices of `machine`, cannot share a
/// memory or use the GPUs' own library, as the exchange requires. Requires that the plan's exchanges are planned.
void check_hosting(const plan& so_far, const planned_exchange& exchange, const device::census& machine);

}  // namespace troupe
