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

/// A node, and how it is started.
struct local_node {
  std::string name;
  std::vector<std::string> arguments;  ///< The whole command line, "troupe" first; the program is this one.
};

/// Starts the nodes, the first with this process's standard output, and waits for all of them. What they say otherwise
/// comes out on standard error, each line under its node's name. A signal goes to the first. Once that has ended, or
/// another has failed, the rest are soon told to end, and killed two seconds after it. Returns the exit status of the
/// run: that of whichever node failed before the others, else 0. Throws std::runtime_error where a process cannot be
/// started; none is left then.
int run_local_nodes(const std::vector<local_node>& nodes, signal_watch& signals);

}  // namespace troupe
