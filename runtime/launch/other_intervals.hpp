// Continues a run with other intervals between exchanges than those of its checkpoint.
#pragma once

#include "troupe/algorithms/messages/run_state.hpp"
#include "troupe/runtime/plan/plan.hpp"
#include "troupe/runtime/topology/resumable.hpp"

#include <memory>
#include <vector>

namespace troupe {

/// Returns a state in which the next step of each exchange whose interval is among `changed` follows from `plan`.
/// Throws state_error if the state belongs to another topology.
std::shared_ptr<const run_state> with_intervals_of(const plan& plan, std::shared_ptr<const run_state> state,
                                                   const std::vector<topology::changed_setting>& changed);

}  // namespace troupe
