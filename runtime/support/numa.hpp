// The NUMA nodes of this machine, as the kernel reports them. Read once, when a run is planned; any thread may call it.
// Nothing here moves a thread or a page.
#pragma once

#include <filesystem>
#include <vector>

namespace troupe {

/// A part of the machine: cores, and the memory near them.
struct numa_node {
  int id{0};                 ///< The kernel's id.
  std::vector<int> cores{};  ///< The kernel's numbers, ascending; empty means any core.
};

/// Returns the nodes that have cores, ascending by id. From /sys/devices/system/node, only cores on which this process
/// may run are returned. If `system` is missing or inconsistent, returns a single node of any core. Throws nothing but
/// std::bad_alloc.
std::vector<numa_node> numa_nodes(const std::filesystem::path& system = "/sys/devices/system/node");

}  // namespace troupe
