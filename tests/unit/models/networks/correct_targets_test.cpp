#include "tests/support/doctest.hpp"

#include "troupe/models/networks/network.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>

#include <limits>

namespace correct_targets_test {

using namespace troupe::models;

namespace {

std::int64_t counted(const loss_function& kind, const at::Tensor& output, const at::Tensor& target) {
  const auto found = correct_targets(kind, output, target);
  REQUIRE(found);
  CHECK((found->scalar_type() == at::kLong));
  CHECK(found->dim() == 0);
  CHECK(*count_correct(kind, output, target) == found->item<std::int64_t>());
  return found->item<std::int64_t>();
}

}  // namespace

TEST_CASE("a target is met by the highest score, the first of equal ones") {
  const auto scores = at::tensor({1, 3, 2, 5, 5, 0, -1, -1, -1, 0, 0, 7}, at::kFloat).view({4, 3});
  CHECK(counted(loss_function::cross_entropy, scores, at::tensor({1, 0, 0, 2}, at::kLong)) == 4);
  CHECK(counted(loss_function::nll, scores, at::tensor({1, 1, 2, 2}, at::kLong)) == 2);
  CHECK(counted(loss_function::cross_entropy, scores.clone().requires_grad_(), at::tensor({0, 2, 1, 0}, at::kLong)) ==
        0);
}

TEST_CASE("plain loops find what LibTorch's operators find, of texts too, and where values are no numbers") {
  const auto scores = at::arange(2 * 3 * 5, at::kFloat).sin().view({2, 3, 5});
  const auto target = at::arange(6).remainder(5).view({2, 3});
  CHECK(counted(loss_function::cross_entropy, scores, target) ==
        scores.argmax(-1).eq(target).sum().item<std::int64_t>());
  CHECK(counted(loss_function::cross_entropy, scores.transpose(0, 1), target.t()) ==
        counted(loss_function::cross_entropy, scores, target));  // not contiguous: computed by LibTorch's operators
  auto broken = scores.flatten(0, 1).clone();
  const auto nan = std::numeric_limits<float>::quiet_NaN();
  broken[0][2] = nan;
  broken[1].fill_(nan);
  broken[2][3] = std::numeric_limits<float>::infinity();
  for (std::int64_t of = 0; of < 5; ++of)
    CHECK(counted(loss_function::nll, broken, at::full({6}, of, at::kLong)) ==
          broken.argmax(-1).eq(of).sum().item<std::int64_t>());
}

TEST_CASE("one score tells two classes apart, and numbers have none") {
  const auto scores = at::tensor({0.5, -0.5, 0.0, 2.0}, at::kFloat);
  for (const auto& kind : {loss_function::hinge, loss_function::binary_cross_entropy})
    CHECK(counted(kind, scores, at::tensor({1, 1, 0, 0}, at::kLong)) == 2);
  CHECK_FALSE(correct_targets(loss_function::mse, scores, scores));
}

}  // namespace correct_targets_test
