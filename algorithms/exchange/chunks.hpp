// Flat tensors cut into pieces that travel separately, so that the hops and folds of one overlap with those of the
// others.
#pragma once

#include "troupe/algorithms/exchange/member_options.hpp"
#include "troupe/algorithms/messages/part.hpp"
#include "troupe/algorithms/rules/reduce.hpp"

#include <cstdint>
#include <vector>

namespace troupe {

/// The whole tensor cut into shards, and these into chunks that travel separately; key::part numbers the chunks.
struct chunking {
  std::vector<range> ranges;          ///< Range of each chunk, ascending and covering the whole.
  std::vector<std::uint32_t> shards;  ///< For each chunk, the shard it was cut from.

  /// Returns the number of elements of the largest chunk.
  std::int64_t largest() const;
};

/// Cuts the flat parameters into at most `shards` shards, and these into chunks of at most options.chunk_elements.
chunking cut_in_chunks(const member_options& options, std::int64_t shards);

/// Returns chunk `index` of the part `own`, as a view.
part cut(const part& own, const chunking& chunks, std::uint32_t index);

/// Marks chunk `index` as arrived. Throws exchange_error (stale) if it had arrived before.
void mark(std::vector<bool>& came, std::uint32_t index);

}  // namespace troupe
