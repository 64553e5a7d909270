#include "troupe/models/networks/random_operators.hpp"

#include "tests/support/doctest.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/_scaled_dot_product_attention_math.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/alpha_dropout.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/feature_alpha_dropout.h>
#include <ATen/ops/feature_dropout.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <limits>
#include <mutex>
#include <tuple>

namespace random_operators_test {

using namespace troupe::models;

namespace {

/// Returns what LibTorch's operator returns when it draws from the generator of the process with this seed.
template <class Operator>
at::Tensor with_seed(std::uint64_t seed, Operator call) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  {
    const std::lock_guard lock{generator.mutex()};
    generator.set_current_seed(seed);
  }
  return call();
}

at::Generator seeded(std::uint64_t seed) {
  return at::detail::createCPUGenerator(seed);
}

}  // namespace

TEST_CASE("dropout is that of LibTorch with another generator, bit for bit") {
  const auto x = at::randn({4, 6, 5, 5}, seeded(1));
  for (const double p : {0.0, 0.1, 0.5, 1.0}) {
    CAPTURE(p);
    CHECK(dropout(x, p, seeded(7)).equal(with_seed(7, [&] { return at::dropout(x, p, true); })));
    CHECK(dropout(x, p, seeded(7), drop_unit::channel).equal(with_seed(7, [&] {
      return at::feature_dropout(x, p, true);
    })));
    CHECK(at::allclose(alpha_dropout(x, p, seeded(7)), with_seed(7, [&] { return at::alpha_dropout(x, p, true); })));
    CHECK(at::allclose(alpha_dropout(x, p, seeded(7), drop_unit::channel),
                       with_seed(7, [&] { return at::feature_alpha_dropout(x, p, true); })));
  }
}

TEST_CASE("attention with dropout is that of LibTorch with another generator") {
  const auto q = at::randn({2, 4, 5, 8}, seeded(1)), k = at::randn({2, 4, 6, 8}, seeded(2)),
             v = at::randn({2, 4, 6, 3}, seeded(3));
  auto allowed = at::ones({5, 6}, at::kBool).tril_();
  allowed[3].fill_(false);  // attends to nothing
  const auto added = at::randn({2, 1, 5, 6}, seeded(4));
  const auto check = [&](const attention_options& how, const at::Tensor& key, const at::Tensor& value) {
    auto mask = how.mask;  // this function of LibTorch adds it
    if (mask && mask->scalar_type() == at::kBool)
      mask = at::zeros(mask->sizes()).masked_fill_(mask->logical_not(), -std::numeric_limits<double>::infinity());
    const auto expected = with_seed(9, [&] {
      return std::get<0>(
          at::_scaled_dot_product_attention_math(q, key, value, mask, how.p, how.causal, {}, how.scale, how.grouped));
    });
    const auto found = attention(q, key, value, how, seeded(9));
    CHECK(at::allclose(found, expected, 1e-4, 1e-5));
    CHECK_FALSE(at::allclose(
        found, attention(q, key, value,
                         {.mask = how.mask, .causal = how.causal, .scale = how.scale, .grouped = how.grouped}, {})));
  };
  check({.p = 0.3}, k, v);
  check({.p = 0.3, .causal = true}, k, v);
  check({.mask = allowed, .p = 0.3}, k, v);
  check({.mask = added, .p = 0.3, .scale = 0.5}, k, v);
  check({.p = 0.3, .grouped = true}, k.narrow(1, 0, 2), v.narrow(1, 0, 2));
}

}  // namespace random_operators_test
