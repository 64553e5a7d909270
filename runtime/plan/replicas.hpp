// Expands the replicas of a shared exchange into shared memories and an averaging of parameters (Zhang, Ré 2014,
// "DimmWitted", section 3.3), written as an equivalent topology file without the setting `replicas`.
#pragma once

#include "troupe/runtime/support/numa.hpp"
#include "troupe/runtime/topology/topology.hpp"

#include <map>
#include <string>
#include <vector>

namespace troupe {

/// A topology file without replicas, and what its expansion added.
struct without_replicas {
  topology::topology file;                        ///< Every shared exchange has replicas = "machine".
  std::map<std::string, std::vector<int>> cores;  ///< By exchange: the cores near its memory; empty means any.
  std::vector<std::string> notes;                 ///< Notes for the user, one line each.
};

/// Expands `replicas = "node"` into one shared memory per NUMA node of `machine`, each for a block of ranks, and an
/// all_reduce of parameters among the first workers of the blocks at the interval `every`. Expands `replicas = "core"`
/// into an all_reduce among all workers. On a machine with one NUMA node, "node" is the same as "machine".
without_replicas expand_replicas(const topology::topology& given, const std::vector<numa_node>& machine);

}  // namespace troupe
