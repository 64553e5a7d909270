// Determines which node of a plan this process is, from the way in which it was launched.
#pragma once

#include "troupe/runtime/plan/plan.hpp"

#include <functional>
#include <string>
#include <vector>

namespace troupe {

/// The environment of a process, as far as its node depends on it.
struct launch_surroundings {
  std::function<const char*(const char*)> variable;  ///< Behaves as getenv(3).
  std::string host;                                  ///< The result of gethostname(2).
  std::function<bool(const endpoint&)> is_our_host;  ///< Returns whether this host has an address.
};

/// Returns the surroundings of this process.
launch_surroundings surroundings();

/// Returns the name of the node that this process is, by the first of these rules that applies:
/// - TROUPE_NODE is the name.
/// - SLURM_NODEID (Slurm), OMPI_COMM_WORLD_RANK (Open MPI) or JOB_COMPLETION_INDEX (Kubernetes), the first that is set,
///   is the index of the node, from 0 in the order of the file.
/// - The node has the name of this host, without the domain.
/// - The address of the node is the name of this host, or one of its addresses.
/// - If the file has only loopback addresses, a host name such as troupe-2 (StatefulSet of Kubernetes) has the index.
///   Other numbers in host names are ignored, because hosts are numbered from 0, from 1 or by their address.
/// Throws input_error if no rule applies, no node has the index, or more than one node is at this host.
std::string launched_name(const std::vector<planned_node>& nodes, const launch_surroundings& where);

}  // namespace troupe
