// The routes of all_reduce and what they share. Only all_reduce.cpp, norm_statistics.cpp and the files of the routes
// use this header. The sender of a part is the rank that sent it last, so a rank that forwards a mean sets itself as
// the sender.
#pragma once

#include "troupe/algorithms/exchange/chunks.hpp"
#include "troupe/algorithms/exchange/member.hpp"
#include "troupe/algorithms/exchange/member_options.hpp"
#include "troupe/algorithms/rules/reduce.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace troupe::all_reduce {

/// Called for one message with its two ranks and its number of elements.
using message_counter = std::function<void(std::uint32_t from, std::uint32_t to, std::int64_t elements)>;

/// One route for the sums.
struct route {
  std::unique_ptr<member> (*make_member)(const member_options&);
  /// Calls `count` for every message of one step among n workers with this layout, before cutting in chunks.
  void (*list_messages)(std::uint32_t n, const models::flat_layout& layout, const message_counter& count);
};

/// Returns the route on which every rank sends everything to every other rank and folds for itself: one hop.
route all_gather();

/// Combines the contributions of all ranks, in rank order, into the answer.
using merge_rule = at::Tensor (*)(const std::vector<rules::weighted>& contributions, models::buffer_pool& pool);

/// Makes a member of all_gather() that combines contributions with `merge` instead of averaging them.
std::unique_ptr<member> make_gathering_member(const member_options& options, merge_rule merge);

/// Returns the route on which rank j folds shard j of all ranks and sends the mean to all: two hops.
route direct();

/// Returns the route on which the sum travels up the ranks, each adding its own values, and the mean travels back down:
/// 2(n−1) hops.
route chain();

/// Returns the route on which the sum of segment j starts at rank j and travels around the ring, followed by the mean:
/// 2(n−1) hops.
route ring();

}  // namespace troupe::all_reduce
