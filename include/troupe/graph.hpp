/// @file
/// Graphs of your own for gossip, which may change between exchanges. A graph, registered before the command runs,
/// becomes a value of the setting `graph`:
///
/// @code{.cpp}
/// #include "troupe/command.hpp"
/// #include "troupe/graph.hpp"
///
/// /// For two or more members: in each exchange, every member averages with one neighbour, alternately the next and
/// /// the one before.
/// troupe::rules::mixing_schedule alternating(std::uint32_t members) {
///   std::vector<troupe::rules::mixing_matrix> period(2);
///   for (std::uint32_t i = 0; i < members; ++i)
///     for (const auto k : {0u, 1u}) {
///       const auto other = (i + (k == 0 ? 1 : members - 1)) % members;
///       period[k].rows.push_back(i < other ? std::vector<troupe::rules::neighbour>{{i, 0.5}, {other, 0.5}}
///                                          : std::vector<troupe::rules::neighbour>{{other, 0.5}, {i, 0.5}});
///     }
///   return troupe::rules::mixing_schedule{std::move(period)};
/// }
///
/// int main(int count, char** words) {
///   troupe::register_graph({"alternating", "a ring whose direction alternates", alternating});
///   return troupe::apps::command(count, words);
/// }
/// @endcode
#pragma once

#include "troupe/algorithms/exchange/gossip/graph_registry.hpp"
