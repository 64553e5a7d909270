// The nodes of a run as child processes of this one: started together, heard line by line, and taken down with it,
// also where it is killed.
#pragma once

#include "troupe/runtime/node/signals.hpp"
#include "troupe/runtime/plan/plan.hpp"

#include <string>
#include <vector>

namespace troupe {

/// Gives every node whose port is 0 two neighbouring free ports of its host. Throws input_error where there are none,
/// where those of another node are taken, or where one is not on this host.
void choose_ports(std::vector<planned_node>& nodes);

struct local_node {
  std::string name;
  std::vector<std::string> arguments;  ///< Of the command that this process runs.
};

/// Starts the nodes, the first with this process's standard output, and waits for all of them. What they say otherwise
/// comes out on standard error, each line under its node's name. A signal goes to the first; once any has failed, the
/// others are told to end, and have two seconds. Returns the exit status of the run: that of the first node that
/// failed, else 0.
int run_local_nodes(const std::vector<local_node>& nodes, signal_watch& signals);

}  // namespace troupe
