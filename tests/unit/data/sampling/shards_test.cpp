#include "troupe/data/sampling/shards.hpp"

#include "tests/support/doctest.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>

#include <algorithm>
#include <set>

namespace shards_test {

using namespace troupe::data;

namespace {

/// Returns so many samples of each of ten classes, mixed.
at::Tensor ten_classes(std::int64_t each) {
  return at::arange(10 * each, at::kLong).remainder(10);
}

void check_disjoint(const sample_shards& shards, std::int64_t share, std::int64_t samples) {
  std::set<std::int64_t> seen;
  for (const auto& each : shards) {
    CHECK(each.size() == static_cast<std::size_t>(share));
    for (const auto sample : each) {
      CHECK((sample >= 0 && sample < samples));
      CHECK(seen.insert(sample).second);
    }
  }
}

std::vector<std::int64_t> counts(const std::vector<std::int64_t>& share, const at::Tensor& targets) {
  std::vector<std::int64_t> found(10);
  for (const auto sample : share) ++found[static_cast<std::size_t>(targets[sample].item<std::int64_t>())];
  return found;
}

/// Returns the mean, over the workers, of the share of a worker's most frequent class.
double largest_share(double alpha, std::uint64_t seed) {
  const auto targets = ten_classes(500);
  double sum = 0;
  const auto shards = dirichlet_shards(targets, 20, alpha, seed);
  for (const auto& share : shards) {
    const auto found = counts(share, targets);
    sum += static_cast<double>(*std::max_element(found.begin(), found.end())) / static_cast<double>(share.size());
  }
  return sum / static_cast<double>(shards.size());
}

}  // namespace

TEST_CASE("shares drawn from a Dirichlet distribution are equally large, disjoint, and a function of the seed") {
  const auto targets = ten_classes(101);
  for (const double alpha : {1e-3, 0.1, 1.0, 100.0, 1e6}) {
    CAPTURE(alpha);
    const auto shards = dirichlet_shards(targets, 7, alpha, 3);
    REQUIRE(shards.size() == 7);
    check_disjoint(shards, 144, 1010);
    CHECK(shards == dirichlet_shards(targets, 7, alpha, 3));
    CHECK(shards != dirichlet_shards(targets, 7, alpha, 4));
  }
}

TEST_CASE("alpha = 0.5 leaves a worker mostly one class: it is that of Hsu et al., not of a Dirichlet for each class") {
  double sum = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) sum += largest_share(0.5, seed) / 40;
  // Dir(0.05, …, 0.05) has a largest share of 0.78 on average. The last workers get the remaining samples. With
  // Dir(0.5, …, 0.5) over the workers for each class, the mean would be about a third.
  CHECK(sum > 0.65);
  CHECK(sum < 0.8);
}

TEST_CASE("a small alpha leaves workers few classes, a large one all of them alike") {
  // With alpha = 0.01, nearly all of q is at one class. A worker's 250 samples come from a class of 500, so one or two
  // classes suffice until they run out. With 1e5, every class has a tenth, and of 250 draws the largest count is
  // about 33.
  CHECK(largest_share(0.01, 1) > 0.7);
  CHECK(largest_share(1e5, 1) < 0.18);
  const double between = largest_share(1, 1);
  CHECK(between < largest_share(0.01, 1));
  CHECK(between > largest_share(1e5, 1));
}

TEST_CASE("over many seeds the share of a class has the mean and variance of a Dirichlet distribution") {
  // Two classes alike, alpha = 2: q ~ Beta(1, 1), uniform: mean 1/2, variance 1/12. The first of ten workers draws 10
  // of 100 samples, so that nothing runs out.
  const auto targets = at::arange(100, at::kLong).remainder(2);
  double sum = 0, squares = 0;
  constexpr int runs = 4000;
  for (int seed = 0; seed < runs; ++seed) {
    const auto shards = dirichlet_shards(targets, 10, 2, static_cast<std::uint64_t>(seed));
    double ones = 0;
    for (const auto sample : shards[0]) ones += static_cast<double>(sample % 2) / 10;
    sum += ones;
    squares += ones * ones;
  }
  const double mean = sum / runs, variance = squares / runs - mean * mean;
  CHECK(mean == doctest::Approx(0.5).epsilon(0.04));
  // Ten draws of each worker: 1/12 + E[q(1-q)]/10 = 1/12 + 1/60.
  CHECK(variance == doctest::Approx(1.0 / 12 + 1.0 / 60).epsilon(0.06));
}

TEST_CASE("sorted by label, workers have a block of classes each") {
  const auto targets = ten_classes(10);
  const auto shards = shards_by_label(targets, 5);
  check_disjoint(shards, 20, 100);
  for (std::size_t rank = 0; rank < 5; ++rank) {
    const auto found = counts(shards[rank], targets);
    CHECK(found[2 * rank] == 10);
    CHECK(found[2 * rank + 1] == 10);
  }
  CHECK(shards[0][0] == 0);
  CHECK(shards[0][1] == 10);
  check_disjoint(shards_by_label(targets, 3), 33, 100);
  CHECK(shards_by_label(targets, 200)[0].empty());
}

}  // namespace shards_test
