// The links of a plan, emulated or real: section [[link]] of the topology file, with names resolved.
#pragma once

#include "troupe/runtime/topology/topology.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

struct planned_exchanges;

/// The end of a link: a worker or server, a node, or everything.
struct link_end {
  bool everywhere{false};  ///< "*".
  std::optional<std::uint32_t> id{}, node{};
};

struct planned_link {
  topology::link_settings given;
  std::vector<link_end> ends;  ///< One for `at`, two for `between`.
};

/// Resolves the links of the topology file, once the exchanges are planned. Throws input_error if one names a worker,
/// server or node that the plan does not have, or if an exchange cannot be emulated.
std::vector<planned_link> plan_links(const planned_exchanges& plan);

/// Returns whether `troupe run` emulates any of the links.
bool has_emulated(const std::vector<planned_link>& links);

/// Returns text such as "w0 ↔ w3: 10Mbit/s, latency 20ms".
std::string describe(const planned_link& link);

}  // namespace troupe
