// The kinds of exchange that a topology file can name. A kind says what it is for people and for the plan, and how to
// make one worker's side of it; nothing else in the project knows an algorithm.
#pragma once

#include "troupe/actors/exchange/member.hpp"
#include "troupe/actors/messages.hpp"
#include "troupe/actors/port.hpp"
#include "troupe/actors/support/setting.hpp"
#include "troupe/models/flat.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

/// Tensor traffic of one step from one worker's port to another's. Messages are counted uncut: what a route cuts into
/// chunks (port_options::chunk_elements) only so that they overlap counts as one. Bytes are the same either way.
struct planned_edge {
  std::uint32_t from{0}, to{0};  ///< Ranks.
  std::uint64_t messages{0};     ///< Per step.
  std::uint64_t bytes{0};        ///< Tensor payload per step.
};

struct exchange_kind {
  std::string name;
  std::string explanation;       ///< One line.
  std::string source;            ///< Paper or textbook, with section.
  std::vector<slot> sends;       ///< What may be sent, the default first.
  slot answers{slot::gradient};  ///< What comes back.
  bool synchronous{true};        ///< All members' snapshots of a step are equal and the run is deterministic.
  std::vector<setting> settings;
  /// Makes one worker's side of it.
  std::function<std::unique_ptr<member>(const port_options&)> make_member;
  /// Lists the traffic of one step among `world_size` workers.
  std::function<std::vector<planned_edge>(std::uint32_t world_size, const models::flat_layout&, const setting_values&)>
      edges;
};

/// All kinds, in the order in which `troupe list` shows them.
const std::vector<exchange_kind>& exchange_kinds();

/// Returns the kind of this name, or nullptr.
const exchange_kind* find_exchange(const std::string& name);

/// Returns what the topology file calls it: parameters, gradient, change.
std::string name_of(slot what);

}  // namespace troupe
