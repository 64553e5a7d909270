#include "troupe/models/networks/max_pool.hpp"

#include "tests/support/doctest.hpp"

#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include <cstring>
#include <limits>
#include <vector>

namespace max_pool_test {

namespace {

using namespace troupe::models;

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  const auto one = a.contiguous(), other = b.contiguous();
  return one.sizes() == other.sizes() && std::memcmp(one.const_data_ptr(), other.const_data_ptr(), one.nbytes()) == 0;
}

/// Compares values and gradients with LibTorch's.
void check_same(const at::Tensor& x, const at::Tensor& gradient) {
  const auto own = x.detach().clone().requires_grad_(), theirs = x.detach().clone().requires_grad_();
  const auto pooled = max_pool_2x2(own), expected = at::max_pool2d(theirs, 2);
  CHECK(same_bits(pooled.detach(), expected.detach()));
  pooled.backward(gradient);
  expected.backward(gradient);
  CHECK(same_bits(own.grad(), theirs.grad()));
}

}  // namespace

TEST_CASE("pooling has the bits of LibTorch's, forwards and backwards, for even and odd sides") {
  for (const auto& sides : std::vector<std::vector<std::int64_t>>{{2, 2}, {24, 24}, {5, 8}, {8, 5}, {7, 3}, {31, 17}}) {
    const auto x = at::randn({3, 4, sides[0], sides[1]});
    check_same(x, at::randn({3, 4, sides[0] / 2, sides[1] / 2}));
  }
}

TEST_CASE("the first of equal values is the largest, NaN is larger than any number, and a gradient of -0 becomes 0") {
  const auto ties = at::randint(-1, 2, {4, 3, 10, 10}).to(at::kFloat);
  const auto gradient = at::randint(-1, 2, {4, 3, 5, 5}).to(at::kFloat).mul_(-0.0F).sub_(0.0F);
  check_same(ties, gradient);
  auto special = ties.clone();
  const auto infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  special.masked_fill_(at::randint(0, 4, ties.sizes()).eq(0), nan);
  special.masked_fill_(at::randint(0, 4, ties.sizes()).eq(0), -infinity);
  special.masked_fill_(at::randint(0, 8, ties.sizes()).eq(0), infinity);
  special.select(0, 0).fill_(-infinity);
  check_same(special, at::randn({4, 3, 5, 5}));
}

TEST_CASE("other types and memory formats are pooled as well") {
  const auto x = at::randn({2, 3, 6, 6}), gradient = at::randn({2, 3, 3, 3});
  check_same(x.to(at::MemoryFormat::ChannelsLast), gradient);
  check_same(x.to(at::kDouble), gradient.to(at::kDouble));
  check_same(x.to(at::kBFloat16), gradient.to(at::kBFloat16));
  check_same(x, gradient.transpose(2, 3));
}

}  // namespace max_pool_test
