// Merged means and variances of parts, compared with those of the whole in double precision.
#include "troupe/algorithms/rules/moments.hpp"

#include "tests/support/doctest.hpp"

#include "troupe/algorithms/exchange/all_reduce/norm_statistics.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>

#include <vector>

namespace moments_test {

using namespace troupe;

namespace {

/// Mean and biased variance of each row, [2·rows], float32.
at::Tensor moments_of(const at::Tensor& rows) {
  return at::cat({rows.mean(1), rows.var(1, /*unbiased=*/false)}).to(at::kFloat);
}

}  // namespace

TEST_CASE("moments of parts of any size are those of the whole, by hand") {
  // {1, 3} and {5}: means 2 and 5, variances 1 and 0; together mean 3, variance (4 + 0 + 4) / 3.
  models::buffer_pool pool;
  const auto merged = rules::moments_in_order({{at::tensor({2.0F, 1.0F}), 2}, {at::tensor({5.0F, 0.0F}), 1}}, pool);
  CHECK(merged[0].item<float>() == 3);
  CHECK(merged[1].item<float>() == doctest::Approx(8.0 / 3));
}

TEST_CASE("a variance ten thousand million times smaller than the square of the mean survives the merge") {
  models::buffer_pool pool;
  const at::Tensor noise = at::arange(3 * 90, at::kDouble).mul(1.7).sin().reshape({3, 90});
  for (const double deviation : {1.0, 0.01}) {
    CAPTURE(deviation);
    const at::Tensor whole = noise * deviation + at::tensor({-1000.0, 0.0, 1000.0}).to(at::kDouble).view({3, 1});
    std::vector<rules::weighted> parts;
    for (const auto& [first, count] : {std::pair<std::int64_t, std::int64_t>{0, 10}, {10, 30}, {40, 50}})
      parts.push_back({moments_of(whole.narrow(1, first, count)), static_cast<double>(count)});
    const auto merged = rules::moments_in_order(parts, pool), expected = moments_of(whole);
    CHECK(at::allclose(merged.narrow(0, 0, 3), expected.narrow(0, 0, 3), 1e-6, 1e-6));
    // Float32 means are exact to 3e-5, which enters the spread of the means once.
    CHECK(at::allclose(merged.narrow(0, 3, 3), expected.narrow(0, 3, 3), 0.01, 0));
  }
}

TEST_CASE("a single part is returned as it is") {
  models::buffer_pool pool;
  const auto own = at::tensor({2.0F, 1.0F});
  CHECK(rules::moments_in_order({{own, 7}}, pool).is_same(own));
}

TEST_CASE("statistics of norms have a bucket forward and one backward for each layer, on boundaries of 64 bytes") {
  const auto [layout, buckets] = norm_buckets_of({4, 20});
  CHECK((buckets == std::vector<range>{{0, 8}, {16, 40}, {64, 8}, {80, 40}}));
  CHECK(layout.parameter_end == 128);
  CHECK(layout.parameter_count == 2 * (8 + 40));
}

}  // namespace moments_test
