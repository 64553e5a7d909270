#include "troupe/algorithms/rules/reduce.hpp"

#include "tests/support/doctest.hpp"

#include "troupe/algorithms/exchange/member.hpp"
#include "troupe/data/random/random.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <cstring>
#include <optional>
#include <utility>
#include <vector>

namespace reduce_test {

namespace {

using namespace troupe;

at::Tensor random_values(std::int64_t count, std::uint64_t seed) {
  data::random_stream random{seed};
  auto values = at::empty({count});
  for (std::int64_t i = 0; i < count; ++i) values.data_ptr<float>()[i] = static_cast<float>(random.between(-1, 1));
  return values;
}

/// Computes the promised result in the simplest way.
std::vector<float> plain_fold(const std::vector<rules::weighted>& summands) {
  std::vector<float> result;
  double weight = 0;
  for (const auto& summand : summands) weight += summand.weight;
  for (std::int64_t i = 0; i < summands.front().values.numel(); ++i) {
    float sum = static_cast<float>(summands[0].weight) * summands[0].values.data_ptr<float>()[i];
    for (std::size_t k = 1; k < summands.size(); ++k)
      sum = sum + static_cast<float>(summands[k].weight) * summands[k].values.data_ptr<float>()[i];
    result.push_back(sum / static_cast<float>(weight));
  }
  return result;
}

bool same_bits(const at::Tensor& values, const std::vector<float>& expected) {
  return static_cast<std::size_t>(values.numel()) == expected.size() &&
         std::memcmp(values.data_ptr<float>(), expected.data(), expected.size() * sizeof(float)) == 0;
}

}  // namespace

TEST_CASE("a mean weighs by sample count") {
  models::buffer_pool pool;
  const auto mean = rules::mean_in_order({{at::full({3}, 1.0F), 1}, {at::full({3}, 5.0F), 3}}, pool);
  CHECK(mean.equal(at::full({3}, 4.0F)));  // (1·1 + 3·5) / 4
}

TEST_CASE("a mean is the left fold in rank order, divided once, bit for bit, whatever the size") {
  models::buffer_pool pool;
  for (const std::int64_t count : {1, 15, 16, 17, 2047, 2048, 2049, 10'000}) {
    const std::vector<rules::weighted> summands{{random_values(count, 1), 3},
                                                {random_values(count, 2), 5},
                                                {random_values(count, 3), 16},
                                                {random_values(count, 4), 1}};
    CHECK(same_bits(rules::mean_in_order(summands, pool), plain_fold(summands)));
  }
}

TEST_CASE("a fold link by link has the bits of the fold at once") {
  models::buffer_pool pool;
  const std::vector<rules::weighted> summands{
      {random_values(1000, 5), 7}, {random_values(1000, 6), 9}, {random_values(1000, 7), 2}};
  std::optional<at::Tensor> sum;
  for (std::size_t i = 0; i < 2; ++i) sum = rules::fold_next(sum, summands[i], pool);
  CHECK(same_bits(rules::fold_last(*sum, summands[2], 18, pool), plain_fold(summands)));
}

TEST_CASE("a single summand is its own mean and is not copied") {
  models::buffer_pool pool;
  const auto values = random_values(10, 8);
  CHECK(rules::mean_in_order({{values, 3}}, pool).data_ptr() == values.data_ptr());
}

TEST_CASE("even ranges follow each other on 64-byte boundaries and none is empty") {
  for (const std::int64_t total : {16, 48, 1000, 21'856}) {
    for (const std::int64_t pieces : {1, 2, 3, 4, 7, 64}) {
      const auto ranges = rules::even_ranges(total, pieces, 16);
      CHECK(static_cast<std::int64_t>(ranges.size()) <= pieces);
      std::int64_t end = 0;
      for (const auto& range : ranges) {
        CHECK(range.first == end);
        CHECK(range.first % 16 == 0);
        CHECK(range.count > 0);
        end += range.count;
      }
      CHECK(end == total);
    }
  }
}

TEST_CASE("a range is cut into nearly equal ones that are no larger than asked, on 64-byte boundaries") {
  const auto cut = [](std::int64_t first, std::int64_t count, std::int64_t most) {
    std::vector<std::pair<std::int64_t, std::int64_t>> result;
    for (const auto& range : rules::ranges_of_at_most({first, count}, most, 16))
      result.emplace_back(range.first, range.count);
    return result;
  };
  using ranges = std::vector<std::pair<std::int64_t, std::int64_t>>;
  CHECK(cut(64, 100, 0) == ranges{{64, 100}});
  CHECK(cut(64, 100, 100) == ranges{{64, 64}, {128, 36}});  // 100 is not a multiple of 16 elements: at most 96
  CHECK(cut(64, 96, 100) == ranges{{64, 96}});
  CHECK(cut(0, 40, 1) == ranges{{0, 16}, {16, 16}, {32, 8}});
  CHECK(cut(16, 160, 112) == ranges{{16, 80}, {96, 80}});
}

TEST_CASE("a fold lets go of its contributions once its mean is taken, and still refuses them") {
  models::buffer_pool pool;
  rules::rank_fold fold{2};
  const auto values = at::ones({4});
  fold.add(rank_id{0}, values, 1);
  fold.add(rank_id{1}, values, 3);
  CHECK(fold.take_mean(pool).equal(values));
  CHECK(values.use_count() == 1);
  CHECK(fold.sample_count() == 4);
  CHECK_THROWS_AS(fold.add(rank_id{0}, values, 1), exchange_error);
}

TEST_CASE("a rank that contributes twice, or another shape, is refused") {
  rules::rank_fold fold{3};
  fold.add(rank_id{1}, at::ones({4}), 2);
  CHECK_THROWS_WITH_AS(fold.add(rank_id{1}, at::ones({4}), 2), "rank 1 contributed to the same step twice",
                       exchange_error);
  CHECK_THROWS_WITH_AS(fold.add(rank_id{2}, at::ones({5}), 2),
                       "rank 2 contributed 5 elements, but the others contributed 4", exchange_error);
  CHECK_FALSE(fold.complete());
  CHECK((fold.missing() == std::vector<rank_id>{rank_id{0}, rank_id{2}}));
}

TEST_CASE("folds are kept by step and piece, until their step is over") {
  rules::rank_folds folds{2, 2};
  const auto bring = [&](std::uint32_t rank, std::uint64_t step, std::uint32_t piece) -> rules::rank_fold& {
    return folds.add({.origin = {.sender = rank_id{rank}, .step = step},
                      .which = {0, piece},
                      .piece = {0, at::full({4}, static_cast<float>(rank))},
                      .sample_count = 1});
  };
  using ranks = std::vector<rank_id>;
  CHECK((folds.missing(7) == ranks{rank_id{0}, rank_id{1}}));
  CHECK_FALSE(bring(1, 7, 0).complete());
  CHECK_FALSE(bring(1, 8, 0).complete());
  CHECK((folds.missing(7) == ranks{rank_id{0}}));
  auto& first = bring(0, 7, 0);
  REQUIRE(first.complete());
  const auto values = first.take_values();
  REQUIRE(values.size() == 2);
  CHECK(values[0].equal(at::zeros({4})));
  CHECK(values[1].equal(at::ones({4})));
  CHECK_THROWS_AS(bring(0, 7, 0), exchange_error);
  CHECK((folds.missing(7) == ranks{rank_id{0}, rank_id{1}}));  // of the second piece
  bring(0, 7, 1);
  bring(1, 7, 1);
  CHECK(folds.missing(7).empty());
  folds.forget_before(8);
  CHECK((folds.missing(7) == ranks{rank_id{0}, rank_id{1}}));
  CHECK((folds.missing(8) == ranks{rank_id{0}}));
}

TEST_CASE("a mixture is the left fold in order, weights rounded once, without a division, bit for bit") {
  models::buffer_pool pool;
  for (const std::int64_t count : {1, 17, 2049, 10'000}) {
    const std::vector<rules::weighted> summands{
        {random_values(count, 1), 1.0 / 3}, {random_values(count, 2), 0.5}, {random_values(count, 3), 1.0 / 6}};
    std::vector<float> expected;
    for (std::int64_t i = 0; i < count; ++i) {
      float sum = static_cast<float>(1.0 / 3) * summands[0].values.data_ptr<float>()[i];
      for (std::size_t k = 1; k < 3; ++k)
        sum = sum + static_cast<float>(summands[k].weight) * summands[k].values.data_ptr<float>()[i];
      expected.push_back(sum);
    }
    CHECK(same_bits(rules::mix_in_order(summands, pool), expected));
  }
}

TEST_CASE("a mixture of one with weight 1 is not copied, with another weight it is scaled") {
  models::buffer_pool pool;
  const auto values = random_values(10, 8);
  CHECK(rules::mix_in_order({{values, 1}}, pool).data_ptr() == values.data_ptr());
  CHECK(rules::mix_in_order({{values, 0.5}}, pool).equal(values * 0.5));
}

}  // namespace reduce_test
