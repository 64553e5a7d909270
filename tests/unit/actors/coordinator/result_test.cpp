#include "troupe/actors/coordinator/result.hpp"

#include "tests/support/doctest.hpp"

#include <ATen/ops/tensor.h>

#include <cmath>

namespace result_test {

namespace {

using namespace troupe;

/// Three parameters and two float buffers.
rules::result_options five() {
  rules::result_options options;
  options.layout.parameter_end = 3;
  options.layout.total = 5;
  options.replicas_agree = false;
  return options;
}

rules::replicas_by_rank two_replicas() {
  return {{rank_id{0}, {{.sender = rank_id{0}}, at::tensor({1, 2, 3, 10, 20}, at::kFloat)}},
          {rank_id{1}, {{.sender = rank_id{1}}, at::tensor({3, 2, 5, 30, 60}, at::kFloat)}}};
}

}  // namespace

TEST_CASE("where replicas differ, parameters and buffers are their means, and their distance is reported") {
  const auto found = rules::result_of(two_replicas(), {}, five());
  CHECK(found.values.equal(at::tensor({2, 2, 4, 20, 40}, at::kFloat)));
  CHECK(*found.distance == doctest::Approx(std::sqrt(2)));
  CHECK(rules::distance_of(two_replicas(), five()) == *found.distance);
}

TEST_CASE("with first_buffers the buffers are those of the lowest rank, the parameters as ever") {
  auto options = five();
  options.first_buffers = true;
  CHECK(rules::result_of(two_replicas(), {}, options).values.equal(at::tensor({2, 2, 4, 10, 20}, at::kFloat)));
  const auto held = at::tensor({7, 8, 9}, at::kFloat);
  CHECK(rules::result_of(two_replicas(), held, options).values.equal(at::tensor({7, 8, 9, 10, 20}, at::kFloat)));
  options.replicas_agree = true;
  const auto agreed = rules::result_of(two_replicas(), {}, options);
  CHECK(agreed.values.equal(at::tensor({1, 2, 3, 10, 20}, at::kFloat)));
  CHECK_FALSE(agreed.distance);
}

TEST_CASE("what servers hold is the result, with the mean of the buffers if there are any") {
  const auto held = at::tensor({7, 8, 9}, at::kFloat);
  CHECK(rules::result_of(two_replicas(), held, five()).values.equal(at::tensor({7, 8, 9, 20, 40}, at::kFloat)));
  CHECK(rules::result_of({}, held, five()).values.equal(held));
}

}  // namespace result_test
