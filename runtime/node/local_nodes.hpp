// Runs the nodes of a run as child processes: starts them together, forwards their output line by line, and terminates
// them with this process, even if it is killed.
#pragma once

#include "troupe/runtime/node/signals.hpp"
#include "troupe/runtime/plan/plan.hpp"

#include <string>
#include <vector>

namespace troupe {

/// Throws input_error if a node has an address that is not one of this host.
void check_this_host(const plan& plan);

/// Assigns two neighbouring free ports of its host to every node whose port is 0. Throws input_error if there are none,
/// or if the given ports of another node are in use.
void choose_ports(std::vector<planned_node>& nodes);

/// Returns the ports that were chosen for nodes of `plan` with port 0, such as "alpha=41000". `nodes` are its nodes
/// after choose_ports().
std::vector<std::string> chosen_ports(const plan& plan, const std::vector<planned_node>& nodes);

/// Assigns chosen ports to the nodes of `plan`. The topology file of the plan keeps port 0, so that a continued run
/// gets new ports. Throws input_error for a text that chosen_ports() does not return.
void assign_ports(plan& plan, const std::vector<std::string>& chosen);

/// A node and its command line.
struct local_node {
  std::string name;
  std::vector<std::string> arguments;  ///< The whole command line, starting with "troupe"; the program is this one.
};

/// Starts the nodes, the first with this process's standard output, and waits for all of them. All other output is
/// forwarded to standard error, each line prefixed with the name of its node. Signals are forwarded to the first node.
/// When the first node has ended or another one has failed, the remaining nodes are asked to end shortly afterwards,
/// and killed two seconds after that. Returns the exit status of the run: that of the node that failed first, else 0.
/// Throws std::runtime_error if a process cannot be started; in that case no process is left.
int run_local_nodes(const std::vector<local_node>& nodes, signal_watch& signals);

}  // namespace troupe
