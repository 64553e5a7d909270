// Messages about waiting ports: ids for indices, deadlines, and which rank is waiting for which.
#pragma once

#include "troupe/actors/port/port.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// Number of ticks per deadline. The first tick may arrive at any moment after the wait began, so one tick more is
/// allowed.
constexpr int ticks_of_timeout = 4;

/// Returns the global id of the member or server with this index.
rank_id id_of(const port_options& options, rank_id index);

/// Returns the index of the member or server with this id, if there is one.
std::optional<rank_id> index_of(const port_options& options, rank_id id);

/// Returns the members or servers with these indices as text, such as "ranks 1, 2", "server 0" or "actor median". The
/// list never mixes members and servers.
std::string list_of(const port_options& options, const std::vector<rank_id>& indices);

/// Ranks that a member is waiting for, by index, and the step.
struct awaited {
  std::uint64_t step{0};
  std::vector<rank_id> missing;
};

/// Returns a text such as "exchange: rank 0 is waiting for ranks 1, 2 at step 8", where step 8 is step 7 counted from
/// 0.
std::string waits(const port_options& options, const awaited& whom);

/// Returns the same text for a wait that exceeded the deadline.
std::string overdue(const port_options& options, const awaited& whom);

}  // namespace troupe
