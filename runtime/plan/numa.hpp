// Which cores of this machine lie near which memory, as the kernel tells it. Read once, when a run is planned; any
// thread. Nothing here moves a thread or a page.
#pragma once

#include <filesystem>
#include <vector>

namespace troupe {

/// A part of the machine: cores, and the memory that is near them.
struct numa_node {
  int id{0};                 ///< The kernel's.
  std::vector<int> cores{};  ///< Ascending, the kernel's numbers; none: any core.
};

/// Returns the nodes that have cores, ascending by id; of /sys/devices/system/node only cores that this process may run
/// on. At least one: where `system` is missing, or says something that cannot be, a single node of any core. Throws
/// nothing but std::bad_alloc.
std::vector<numa_node> numa_nodes(const std::filesystem::path& system = "/sys/devices/system/node");

}  // namespace troupe
