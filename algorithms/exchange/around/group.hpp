// Exchanges whose members are groups of workers. The workers of a group send their values to the group's leader, which
// folds them in rank order and takes part in the inner exchange, of any kind, for the whole group. All workers of the
// group receive the inner exchange's answer.
//
// Outer indices: the workers of all groups, 0 to W−1, then the servers. Inner indices: the groups, 0 to G−1, then the
// servers. The leader of a group is its lowest worker.
#pragma once

#include "troupe/algorithms/exchange/around/wrapper.hpp"
#include "troupe/algorithms/exchange/registry.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace troupe {

/// Workers of each group by outer index, ascending. Every worker is in one group.
using worker_groups = std::vector<std::vector<std::uint32_t>>;

struct group_options {
  worker_groups groups{};
  member_options own{};  ///< Options in outer indices, with world_size = W.
  /// Makes the member of a group, or of a server, in the inner exchange: exchange_kind::make_member.
  member_maker make_inner{};
};

/// Makes the member of one worker, or of a server (which then is a `server`). Gradients are weighted by their numbers
/// of samples, and a group's mean by their sum. In an exchange of parameters, all groups have the same weight, whatever
/// their size. In a group of one, nothing is sent within the group.
std::unique_ptr<member> make_group_member(const group_options& options);

/// Returns the options for make_inner.
member_options inner_options(const group_options& options);

/// Returns the traffic between workers: `inner_edges` between the leaders and servers, and within each group what
/// `whole` holds, one tensor, from each worker to its leader and back. An answer within a group counts as one message,
/// however many pieces the inner exchange gives it.
std::vector<planned_edge> group_edges(const worker_groups& groups, const std::vector<planned_edge>& inner_edges,
                                      planned_edge whole);

}  // namespace troupe
