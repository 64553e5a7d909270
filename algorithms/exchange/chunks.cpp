#include "troupe/algorithms/exchange/chunks.hpp"

#include "troupe/algorithms/exchange/member.hpp"

#include <algorithm>
#include <string>

namespace troupe {

chunking cut_in_chunks(const member_options& options, std::int64_t shards) {
  chunking result;
  std::uint32_t shard = 0;
  const auto& [total, multiple] = std::pair{options.layout.parameter_end, options.layout.cut_multiple};
  for (const auto& whole : rules::even_ranges(total, shards, multiple)) {
    for (const auto& piece : rules::ranges_of_at_most(whole, options.chunk_elements, multiple)) {
      result.ranges.push_back(piece);
      result.shards.push_back(shard);
    }
    ++shard;
  }
  return result;
}

std::int64_t chunking::largest() const {
  std::int64_t most = 0;
  for (const auto& range : ranges) most = std::max(most, range.count);
  return most;
}

part cut(const part& own, const chunking& chunks, std::uint32_t index) {
  const auto& range = chunks.ranges.at(index);
  part result = own;
  result.which.part = index;
  result.piece = {range.first, own.piece.values.narrow(0, range.first, range.count)};
  return result;
}

void mark(std::vector<bool>& came, std::uint32_t index) {
  if (came.at(index))
    throw exchange_error(errc::stale, "chunk " + std::to_string(index) + " arrived twice in one step");
  came[index] = true;
}

}  // namespace troupe
