// Which node of a plan this process is, according to what has launched it.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace troupe {

/// The surroundings of a process.
struct launch_surroundings {
  std::function<const char*(const char*)> variable;  ///< As getenv(3).
  std::string host;                                  ///< As gethostname(2).
};

/// Returns the surroundings of this process.
launch_surroundings surroundings();

/// Returns the name of the node that this process is: TROUPE_NODE if it is set; else that with the index, from 0 in the
/// order of the file, in SLURM_NODEID (Slurm), OMPI_COMM_WORLD_RANK (Open MPI) or JOB_COMPLETION_INDEX (Kubernetes),
/// the first that is set; else that with the number at the end of the host name, as in a StatefulSet of Kubernetes.
/// Throws input_error if there is none of these, or no node with this index.
std::string launched_name(const std::vector<std::string>& names, const launch_surroundings& where);

}  // namespace troupe
