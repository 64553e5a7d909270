// What ports of all kinds say when they wait: ids for indices, deadlines, and who waits for whom.
#pragma once

#include "troupe/actors/port.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// A deadline is kept in ticks; the first may come at any moment after the wait began, so one more is waited for.
constexpr int ticks_of_timeout = 4;

/// What the member or server of this index is called outside.
rank_id id_of(const port_options& options, rank_id index);

/// The index of whom this id calls, if it is a member or server.
std::optional<rank_id> index_of(const port_options& options, rank_id id);

/// "ranks 1, 2", "server 0": whom these indices mean. Nobody waits for members and servers at once.
std::string list_of(const port_options& options, const std::vector<rank_id>& indices);

/// Whom a member waits for, by index, and at which step.
struct awaited {
  std::uint64_t step{0};
  std::vector<rank_id> missing;
};

/// "exchange: rank 0 waits for ranks 1, 2 at step 8", which is step 7 counted from 0.
std::string waits(const port_options& options, const awaited& whom);

/// The same, for longer than the deadline.
std::string overdue(const port_options& options, const awaited& whom);

}  // namespace troupe
