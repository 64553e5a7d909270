// Exchanges whose members are groups of workers. The members of a group bring their values to its leader, who folds
// them in rank order and takes part for all of them in the inner exchange, of any kind; what that answers, all get.
//
// Outer indices: the workers of all groups, 0 to W−1, then the servers. Inner indices: the groups, 0 to G−1, then the
// servers. The leader of a group is its lowest worker.
#pragma once

#include "troupe/actors/exchange/member.hpp"
#include "troupe/actors/exchange/registry.hpp"
#include "troupe/actors/port.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace troupe {

/// By group, its workers by outer index, ascending. Every worker is in one group.
using worker_groups = std::vector<std::vector<std::uint32_t>>;

struct group_options {
  worker_groups groups{};
  port_options port{};  ///< In outer indices: rank, world_size = W, servers, ids.
  /// Makes the side of a group, or of a server, in the inner exchange: exchange_kind::make_member.
  std::function<std::unique_ptr<member>(const port_options&)> make_inner{};
};

/// Makes the side of one worker, or of a server, which then is a `server`. Gradients are weighted by their samples,
/// which the group's mean carries on as their sum; groups of parameters weigh the same, whatever their size. Nothing
/// travels inside a group of one.
std::unique_ptr<member> make_group_member(const group_options& options);

/// Returns what make_inner is given.
port_options inner_options(const group_options& options);

/// Returns the traffic between workers: `inner_edges` between the leaders and servers, and inside the groups `bytes` up
/// from each worker to his leader and down again. An answer counts as one message there, in however many pieces the
/// inner exchange gives it.
std::vector<planned_edge> group_edges(const worker_groups& groups, const std::vector<planned_edge>& inner_edges,
                                      std::uint64_t bytes);

}  // namespace troupe
