// Derives from a plan what the links of a node need.
#pragma once

#include "troupe/runtime/plan/plan.hpp"
#include "troupe/runtime/transport/control.hpp"
#include "troupe/runtime/transport/frame.hpp"

#include <cstdint>
#include <vector>

namespace troupe {

/// Returns the ranks of each node.
std::vector<control::node_ranks> ranks_of_nodes(const plan& plan);

/// Returns the limits on the frames that a node accepts.
transport::frame_limits frame_limits_of(const plan& plan, std::uint32_t node);

}  // namespace troupe
