// The ways in which the sums of all_reduce travel, a file each, and what they share. Only all_reduce.cpp and these
// files know of it. A part's sender is the rank that it comes from: who hands a mean on puts itself there.
#pragma once

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

/// Rank j folds shard j of all ranks and hands the mean to all: two hops.
route direct();

/// The sum goes up the ranks, each adding its own, and the mean comes back down: 2(n−1) hops.
route chain();

/// The sum of segment j starts at rank j and goes round, then the mean: 2(n−1) hops.
route ring();

/// The whole cut into shards and these into chunks, which travel by themselves; key::part counts the chunks.
struct chunking {
  std::vector<rules::range> ranges;   ///< By chunk, ascending, covering the whole.
  std::vector<std::uint32_t> shards;  ///< By chunk: the shard it was cut from.

  /// Returns the elements of the largest chunk.
  std::int64_t largest() const;
};

/// Cuts the gradient into at most `shards` shards, and these into chunks of at most options.chunk_elements.
chunking cut_in_chunks(const port_options& options, std::int64_t shards);

/// Returns the part of `own` that is chunk `index`: a view.
part cut(const part& own, const chunking& chunks, std::uint32_t index);

/// Marks that chunk `index` has come. Throws exchange_error (stale) where it had.
void mark(std::vector<bool>& came, std::uint32_t index);

}  // namespace troupe::all_reduce
