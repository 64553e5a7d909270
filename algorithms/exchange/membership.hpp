// The participants of an exchange.
#pragma once

#include "troupe/algorithms/messages/part.hpp"

#include <cstdint>
#include <vector>

namespace troupe {

/// The participants of an exchange, as described to one of them. Members have the indices 0 to n − 1, servers those
/// from n on.
struct membership {
  std::uint32_t generation{0};  ///< Increases when the members are re-formed; see stamp::generation.
  rank_id rank{};               ///< Own index.
  std::uint32_t world_size{1};  ///< Number of members, n.
  std::uint32_t servers{0};     ///< Number of servers.
  /// Global ids of members and servers, indexed by position, ascending; empty means id == index.
  std::vector<rank_id> ids{};
  /// Node of each member and server, indexed by position; empty if all are on one node.
  std::vector<std::uint32_t> nodes{};

  /// Returns whether the own index is that of a server.
  bool is_server() const { return static_cast<std::uint32_t>(rank) >= world_size; }
};

}  // namespace troupe
