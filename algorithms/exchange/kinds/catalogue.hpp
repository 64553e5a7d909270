// Descriptions of the kinds of exchange for users: equation, cost and guarantees. Training does not use them.
#pragma once

#include <string>
#include <vector>

namespace troupe {

/// Cost and guarantees of a kind under some of its settings, in words: n members, P bytes of parameters.
struct exchange_variant {
  std::string when{};             ///< Settings that select it, such as apply = "all"; empty if it is the only one.
  std::string messages{};         ///< Number of messages per exchange, over all members.
  std::string bytes{};            ///< Bytes per exchange, over all members.
  std::string synchronisation{};  ///< Which actors wait for which.
  std::string staleness{};        ///< Bound on the number of versions between a gradient and its application.
  std::string equals{};           ///< What the result must equal, and under which conditions.
  std::vector<std::string> shown_by{};  ///< Tests that demonstrate the claims.
};

/// Description of a kind for people, from which `troupe list exchanges` and the table of docs/algorithms.md are made.
struct exchange_facts {
  std::string equation{};
  std::string picture{};  ///< Diagram of a few lines.
  std::vector<exchange_variant> variants{};
};

/// Returns the facts about the kind of this name; they are empty for a kind that a program has registered.
exchange_facts facts_of_kind(const std::string& name);

}  // namespace troupe
