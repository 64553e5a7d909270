#include "troupe/algorithms/rules/shards.hpp"

#include "tests/support/doctest.hpp"
#include "tests/support/exchange_pump.hpp"

#include "troupe/data/random/random.hpp"
#include "troupe/models/storage/flat.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace shards_test {

using namespace troupe;
using testing::three_parameters;

TEST_CASE("shards are whole parameters, in order, the largest as small as can be") {
  const auto firsts = [](const models::flat_layout& layout, std::uint32_t shards) {
    std::vector<std::pair<std::int64_t, std::int64_t>> result;
    for (const auto& shard : rules::parameter_shards(layout, shards)) result.emplace_back(shard.first, shard.count);
    return result;
  };
  using ranges = std::vector<std::pair<std::int64_t, std::int64_t>>;
  const auto layout = three_parameters();  // 48 + 16 + 112
  CHECK((firsts(layout, 1) == ranges{{0, 176}}));
  CHECK((firsts(layout, 2) == ranges{{0, 64}, {64, 112}}));
  CHECK((firsts(layout, 3) == ranges{{0, 48}, {48, 16}, {64, 112}}));
  CHECK((firsts(layout, 64) == ranges{{0, 48}, {48, 16}, {64, 112}}));
  models::flat_layout large_first;  // 160 + 16 + 16 + 16: no shard stays empty
  large_first.parameters = {{"a", {160}, 0, 160}, {"b", {16}, 160, 16}, {"c", {16}, 176, 16}, {"d", {9}, 192, 9}};
  large_first.parameter_end = 208;
  CHECK((firsts(large_first, 3) == ranges{{0, 160}, {160, 32}, {192, 16}}));
}

TEST_CASE("shards cover random layouts, and no cut has a smaller largest shard") {
  data::random_stream random{7};
  for (int round = 0; round < 300; ++round) {
    const auto parameters = static_cast<std::int64_t>(1 + random.below(7));
    models::flat_layout layout;
    for (std::int64_t i = 0; i < parameters; ++i) {
      const auto count = static_cast<std::int64_t>(16 * (1 + random.below(6)));
      layout.parameters.push_back({"p", {count}, layout.parameter_end, count});
      layout.parameter_end += count;
    }
    const auto shards = static_cast<std::uint32_t>(1 + random.below(8));
    const auto cut = rules::parameter_shards(layout, shards);
    CHECK(static_cast<std::int64_t>(cut.size()) == std::min<std::int64_t>(shards, parameters));
    std::int64_t end = 0, largest = 0;
    for (const auto& shard : cut) {
      CHECK(shard.first == end);
      CHECK(shard.count > 0);
      end += shard.count;
      largest = std::max(largest, shard.count);
    }
    CHECK(end == layout.parameter_end);
    std::int64_t best = layout.parameter_end;  // over every set of cuts: bit i cuts before parameter i + 1
    for (std::uint32_t cuts = 0; cuts < (1U << (parameters - 1)); ++cuts) {
      if (static_cast<std::size_t>(__builtin_popcount(cuts)) + 1 != cut.size()) continue;
      std::int64_t most = 0, now = 0;
      for (std::int64_t i = 0; i < parameters; ++i) {
        if (i > 0 && ((cuts >> (i - 1)) & 1U) != 0) now = 0;
        now += layout.parameters[static_cast<std::size_t>(i)].count;
        most = std::max(most, now);
      }
      best = std::min(best, most);
    }
    CHECK(largest == best);
  }
}

}  // namespace shards_test
