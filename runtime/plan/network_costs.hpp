// What messages between the members of an exchange are assumed to cost, from links of the topology file and from where
// its nodes are. All nodes of a run assume the same.
#pragma once

#include "troupe/algorithms/rules/message_costs.hpp"
#include "troupe/runtime/plan/stages.hpp"

#include <string>
#include <vector>

namespace troupe {

/// Where no link says otherwise: between processes of one host, and between hosts.
constexpr double rate_between_processes = 3e9, latency_between_processes = 30e-6;
constexpr double rate_between_hosts = 125e6, latency_between_hosts = 200e-6;
/// For so long a message occupies its interface in addition to its bytes: system calls, and threads that wake up.
constexpr double seconds_per_message = 7e-6;

struct assumed_network {
  rules::message_costs costs{};
  /// Descriptions of the links that apply, and of what is assumed between members to which none applies.
  std::vector<std::string> links{};
};

/// Returns what is assumed of the network between the members of an exchange; a group counts as its first worker.
/// Unless they are `placed`, all of them are in one process, apart from what links say.
assumed_network assume_network(const planned_wiring& plan, const planned_exchange& exchange, bool placed = true);

/// Returns the elements of the chunks into which tensors are cut, so that hops and folds overlap; 0 in one process,
/// where they are not cut.
std::int64_t chunk_elements_of(const planned_wiring& plan);

}  // namespace troupe
