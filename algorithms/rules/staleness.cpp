#include "troupe/algorithms/rules/staleness.hpp"

#include "troupe/algorithms/support/assert.hpp"

#include <algorithm>

namespace troupe::rules {

void count(staleness_tally& tally, std::uint64_t staleness) {
  const auto entry = std::min<std::size_t>(staleness, staleness_entries - 1);
  if (tally.counts.size() <= entry) tally.counts.resize(entry + 1);
  tally.counts[entry] += 1;
  tally.applied += 1;
  tally.sum += staleness;
  tally.most = std::max(tally.most, staleness);
}

staleness_tally pooled(const std::vector<staleness_tally>& tallies) {
  staleness_tally total;
  for (const auto& tally : tallies) {
    total.counts.resize(std::max(total.counts.size(), tally.counts.size()));
    for (std::size_t entry = 0; entry < tally.counts.size(); ++entry) total.counts[entry] += tally.counts[entry];
    total.applied += tally.applied;
    total.sum += tally.sum;
    total.most = std::max(total.most, tally.most);
    total.refused += tally.refused;
  }
  return total;
}

staleness_tally since(const staleness_tally& before, const staleness_tally& now) {
  TROUPE_ASSERT(before.counts.size() <= now.counts.size() && before.applied <= now.applied, "a tally must not shrink");
  staleness_tally result = now;
  for (std::size_t entry = 0; entry < before.counts.size(); ++entry) result.counts[entry] -= before.counts[entry];
  while (!result.counts.empty() && result.counts.back() == 0) result.counts.pop_back();
  result.applied -= before.applied;
  result.sum -= before.sum;
  result.refused -= before.refused;
  if (result.counts.size() < staleness_entries) result.most = result.counts.empty() ? 0 : result.counts.size() - 1;
  return result;
}

double mean(const staleness_tally& tally) {
  return tally.applied == 0 ? 0 : static_cast<double>(tally.sum) / static_cast<double>(tally.applied);
}

}  // namespace troupe::rules
