// Graphs for gossip that programs can add.
#pragma once

#include "troupe/algorithms/rules/mixing_schedule.hpp"

#include <cstdint>
#include <functional>
#include <string>

namespace troupe {

/// A graph with weights of its own, which may change between exchanges. It has no settings.
struct graph_with_weights {
  std::string name;         ///< Value of the setting `graph`.
  std::string explanation;  ///< One sentence.
  /// Returns the mixing matrices of one period for this number of members.
  std::function<rules::mixing_schedule(std::uint32_t members)> make;
};

/// Adds a graph. Call it before the kinds of exchange are first used. Throws std::invalid_argument if the name is
/// taken.
void register_graph(graph_with_weights graph);

}  // namespace troupe
