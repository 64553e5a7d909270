#include "troupe/data/random/subset.hpp"

#include "troupe/data/random/random.hpp"

#include <cstddef>

namespace troupe::data {

std::vector<std::int64_t> random_subset(std::int64_t count, std::int64_t total, std::uint64_t key) {
  std::vector<bool> is_taken(static_cast<std::size_t>(total));
  random_stream stream{key};
  for (auto last = static_cast<std::size_t>(total - count); last < is_taken.size(); ++last) {
    const auto drawn = stream.below(last + 1);
    is_taken[is_taken[drawn] ? last : drawn] = true;
  }
  std::vector<std::int64_t> subset;
  subset.reserve(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < is_taken.size(); ++i)
    if (is_taken[i]) subset.push_back(static_cast<std::int64_t>(i));
  return subset;
}

}  // namespace troupe::data
