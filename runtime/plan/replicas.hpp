// What the replicas of a shared exchange come to: a composition of memories and of an averaging of parameters (Zhang,
// Ré 2014, "DimmWitted", section 3.3), written as the topology file that says the same without the word.
#pragma once

#include "troupe/runtime/plan/numa.hpp"
#include "troupe/runtime/topology/topology.hpp"

#include <map>
#include <string>
#include <vector>

namespace troupe {

struct without_replicas {
  topology::topology file;                        ///< No shared exchange of it has replicas but "machine".
  std::map<std::string, std::vector<int>> cores;  ///< By exchange: those near its memory; none: any.
  std::vector<std::string> notes;                 ///< What a person should know of it; a line each.
};

/// Turns `replicas = "node"` into a memory for the workers of each NUMA node of `machine`, a block of ranks each, and
/// an all_reduce of parameters between the first worker of each, as often as `every` says; `replicas = "core"` into the
/// all_reduce alone, between all. On a machine of one node, "node" is "machine".
without_replicas expand_replicas(const topology::topology& given, const std::vector<numa_node>& machine);

}  // namespace troupe
