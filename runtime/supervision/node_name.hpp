// Which node of a plan this process is, according to what has launched it.
#pragma once

#include "troupe/runtime/plan/plan.hpp"

#include <functional>
#include <string>
#include <vector>

namespace troupe {

/// The surroundings of a process.
struct launch_surroundings {
  std::function<const char*(const char*)> variable;            ///< As getenv(3).
  std::string host;                                            ///< As gethostname(2).
  std::function<bool(const topology::endpoint&)> is_our_host;  ///< Whether this host has an address.
};

/// Returns the surroundings of this process.
launch_surroundings surroundings();

/// Returns the name of the node that this process is: TROUPE_NODE if it is set; else that with the index, from 0 in the
/// order of the file, in SLURM_NODEID (Slurm), OMPI_COMM_WORLD_RANK (Open MPI) or JOB_COMPLETION_INDEX (Kubernetes),
/// the first that is set; else the one that this host is called after, or whose address is this host's name or one of
/// its addresses. Where the file has only loopback addresses, a name such as troupe-2, as in a StatefulSet of
/// Kubernetes, has the index. A number elsewhere in a host name says nothing: hosts are numbered from 0, from 1 or by
/// their address. Throws input_error if there is none of these, no node with this index, or more than one node at this
/// host.
std::string launched_name(const std::vector<planned_node>& nodes, const launch_surroundings& where);

}  // namespace troupe
