// Assumed costs of messages between the members of an exchange, derived from the links of the topology file and the
// placement of its nodes. All nodes of a run assume the same costs.
#pragma once

#include "troupe/algorithms/rules/message_costs.hpp"
#include "troupe/runtime/plan/stages.hpp"

#include <string>
#include <vector>

namespace troupe {

/// Bytes per second and seconds assumed if no link sets them: between processes of one host, and between hosts.
constexpr double rate_between_processes = 3e9, latency_between_processes = 30e-6;
constexpr double rate_between_hosts = 125e6, latency_between_hosts = 200e-6;
/// Time for which a message occupies its interface in addition to that of its bytes: system calls and waking threads.
constexpr double seconds_per_message = 7e-6;

struct assumed_network {
  rules::message_costs costs{};
  /// Descriptions of the links that apply, and of what is assumed between members to which none applies.
  std::vector<std::string> links{};
};

/// Returns the assumed network between the members of an exchange; a group counts as its first worker. Without
/// `placed`, all members are assumed to be in one process, except where links apply.
assumed_network assume_network(const planned_wiring& plan, const planned_exchange& exchange, bool placed = true);

/// Returns the size, in elements, of the chunks into which tensors are cut so that hops and folds overlap; 0 in one
/// process, where tensors are not cut.
std::int64_t chunk_elements_of(const planned_wiring& plan);

}  // namespace troupe
