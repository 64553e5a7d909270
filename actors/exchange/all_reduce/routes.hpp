// The ways in which the sums of all_reduce travel, a file each, and what they share. Only all_reduce.cpp,
// norm_statistics.cpp and these files know of it. A part's sender is the rank that it comes from: who hands a mean on
// puts itself there.
#pragma once

#include "troupe/actors/exchange/chunks.hpp"
#include "troupe/actors/exchange/member.hpp"
#include "troupe/actors/port.hpp"
#include "troupe/actors/rules/reduce.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace troupe::all_reduce {

/// Is told of one message: the ranks it goes between, and its elements.
using message_counter = std::function<void(std::uint32_t from, std::uint32_t to, std::int64_t elements)>;

/// One way for the sums to travel.
struct route {
  std::unique_ptr<member> (*make_member)(const port_options&);
  /// Tells `count` of every message of one step among n workers with `total` elements of gradient, uncut.
  void (*list_messages)(std::uint32_t n, std::int64_t total, const message_counter& count);
};

/// Everyone sends everything to everyone and folds for himself: one hop.
route all_gather();

/// Combines the contributions of all ranks, in rank order, into the answer.
using merge_rule = at::Tensor (*)(const std::vector<rules::weighted>& contributions, models::buffer_pool& pool);

/// Makes a member of all_gather() whose contributions are merged by `merge` instead of averaged.
std::unique_ptr<member> make_gathering_member(const port_options& options, merge_rule merge);

/// Rank j folds shard j of all ranks and hands the mean to all: two hops.
route direct();

/// The sum goes up the ranks, each adding its own, and the mean comes back down: 2(n−1) hops.
route chain();

/// The sum of segment j starts at rank j and goes round, then the mean: 2(n−1) hops.
route ring();

}  // namespace troupe::all_reduce
