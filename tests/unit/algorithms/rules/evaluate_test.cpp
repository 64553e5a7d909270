// Loss and accuracy of a set that is evaluated as a whole, in shares, or without its last batches.
#include "troupe/algorithms/rules/evaluate.hpp"

#include "tests/support/doctest.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <memory>
#include <optional>
#include <stdexcept>
#include <vector>

namespace evaluate_test {

namespace {

using namespace troupe;

/// A model whose scores are its inputs. Counts the samples that it receives.
class scores_as_given final : public models::network {
 public:
  at::Tensor forward(const at::Tensor& input) override {
    batches.push_back(input.size(0));
    return input;
  }
  void train(bool) override {}
  void draw_from(at::Generator) override {}
  named_tensors parameters() const override { return {}; }
  named_tensors buffers() const override { return {}; }
  models::loss_function loss() const override { return models::loss_function::cross_entropy; }

  std::vector<std::int64_t> batches;
};

/// Samples of two classes, all of class 0. The score of class 1 is −ln(x − 1), where x is the given number, so that the
/// loss ln(1 + e^s₁) is ln(x / (x − 1)). The sample is classified correctly if x > 2.
data::dataset samples_of(const std::vector<double>& numbers) {
  const auto count = static_cast<std::int64_t>(numbers.size());
  auto inputs = at::zeros({count, 2});
  for (std::int64_t i = 0; i < count; ++i) inputs[i][1] = -std::log(numbers[static_cast<std::size_t>(i)] - 1);
  return {.inputs = inputs, .targets = at::zeros({count}, at::kLong), .classes = {"a", "b"}};
}

double loss_of(double number) {
  return std::log(number / (number - 1));
}

evaluation of(const data::dataset& set, const rules::evaluation_options& how) {
  scores_as_given net;
  return *rules::evaluate(net, set, {}, models::loss_function::cross_entropy, how);
}

}  // namespace

TEST_CASE("a set is evaluated whole, the last batch weighing what it has") {
  const auto set = samples_of({3, 3, 1.5, 3, 1.5});
  for (const std::int64_t batch : {1, 2, 5, 9}) {
    const auto found = of(set, {.batch_size = batch});
    CHECK(found.accuracy == 0.6);
    CHECK(found.loss == doctest::Approx((3 * loss_of(3) + 2 * loss_of(1.5)) / 5));
    CHECK(found.sample_count == 5);
  }
}

TEST_CASE("without its last batch a set has full ones only") {
  const auto set = samples_of({3, 3, 1.5, 1.5, 1.5});
  scores_as_given net;
  const auto found =
      *rules::evaluate(net, set, {}, models::loss_function::cross_entropy, {.batch_size = 3, .drop_last = true});
  CHECK(net.batches == std::vector<std::int64_t>{3});
  CHECK(found.accuracy == 2.0 / 3);
  CHECK(found.loss == doctest::Approx((2 * loss_of(3) + loss_of(1.5)) / 3));
  CHECK(found.sample_count == 3);
  CHECK(rules::evaluated_samples(10'000, {.batch_size = 1000, .drop_last = true}) == 10'000);
}

// DistributedSampler(shuffle = False) assigns the samples 0, 2, 4 and 1, 3, 0 of five to two ranks.
TEST_CASE("shares are dealt and padded as a DistributedSampler does, and their mean counts") {
  const auto set = samples_of({3, 1.5, 3, 1.5, 1.5});
  const auto whole = of(set, {.batch_size = 2, .shares = 2});
  CHECK(whole.accuracy == doctest::Approx((2.0 / 3 + 1.0 / 3) / 2));
  CHECK(whole.loss == doctest::Approx(((2 * loss_of(3) + loss_of(1.5)) / 3 + (loss_of(3) + 2 * loss_of(1.5)) / 3) / 2));
  CHECK(whole.sample_count == 6);
  const auto dropped = of(set, {.batch_size = 2, .shares = 2, .drop_last = true});  // 0, 2 and 1, 3
  CHECK(dropped.accuracy == 0.5);
  CHECK(dropped.sample_count == 4);
  const auto many = of(samples_of({3, 1.5}), {.batch_size = 1, .shares = 5});  // 0, 1, 0, 1, 0
  CHECK(many.accuracy == doctest::Approx(0.6));
  CHECK(many.sample_count == 5);
}

TEST_CASE("shares count the highest k, and each class, too") {
  const auto set = samples_of({3, 1.5, 3, 1.5, 1.5});
  scores_as_given net;
  std::vector<rules::class_counts> counts;
  const auto found = *rules::evaluate(net, set, {}, models::loss_function::cross_entropy,
                                      {.batch_size = 2, .shares = 2, .top_k = 2}, nullptr, &counts);
  CHECK(found.top_k_accuracy == 1);
  REQUIRE(counts.size() == 2);
  CHECK(counts[0].samples == 6);
  CHECK(counts[0].correct == 3);
  CHECK(counts[1].found == 3);
}

TEST_CASE("an evaluation of nothing is refused") {
  const auto set = samples_of({3, 3, 3});
  CHECK(rules::evaluated_samples(3, {.batch_size = 2, .shares = 3, .drop_last = true}) == 0);
  CHECK_THROWS_WITH_AS(of(set, {.batch_size = 2, .shares = 3, .drop_last = true}),
                       "a share of 1 samples does not fill an evaluation batch of 2; reduce evaluate.batch_size or set "
                       "evaluate.drop_last = false",
                       std::invalid_argument);
}

}  // namespace evaluate_test
