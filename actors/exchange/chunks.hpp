// Flat tensors in pieces that travel by themselves, so that the hops and folds of one overlap with those of the others.
#pragma once

#include "troupe/actors/messages.hpp"
#include "troupe/actors/port.hpp"
#include "troupe/actors/rules/reduce.hpp"

#include <cstdint>
#include <vector>

namespace troupe {

/// The whole cut into shards and these into chunks, which travel by themselves; key::part counts the chunks.
struct chunking {
  std::vector<range> ranges;          ///< By chunk, ascending, covering the whole.
  std::vector<std::uint32_t> shards;  ///< By chunk: the shard it was cut from.

  /// Returns the elements of the largest chunk.
  std::int64_t largest() const;
};

/// Cuts the flat parameters into at most `shards` shards, and these into chunks of at most options.chunk_elements.
chunking cut_in_chunks(const port_options& options, std::int64_t shards);

/// Returns the part of `own` that is chunk `index`: a view.
part cut(const part& own, const chunking& chunks, std::uint32_t index);

/// Marks that chunk `index` has come. Throws exchange_error (stale) where it had.
void mark(std::vector<bool>& came, std::uint32_t index);

}  // namespace troupe
