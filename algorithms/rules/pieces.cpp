#include "troupe/algorithms/rules/pieces.hpp"

#include "troupe/algorithms/support/assert.hpp"

namespace troupe::rules {

at::Tensor side_by_side(const std::vector<span>& pieces, std::int64_t total, models::buffer_pool pool) {
  if (pieces.size() == 1 && pieces.front().values.numel() == total) return pieces.front().values;
  auto whole = pool.take(total);
  std::int64_t end = 0;
  for (const auto& piece : pieces) {
    TROUPE_ASSERT(piece.first == end, "pieces must be contiguous");
    end += piece.values.numel();
    whole.narrow(0, piece.first, piece.values.numel()).copy_(piece.values);
  }
  TROUPE_ASSERT(end == total, "pieces must cover the whole tensor");
  return whole;
}

}  // namespace troupe::rules
