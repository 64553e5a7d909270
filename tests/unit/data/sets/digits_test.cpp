#include "tests/support/doctest.hpp"

#include "troupe/data/sets/dataset.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>

#include <algorithm>
#include <cmath>

namespace digits_test {

using namespace troupe::data;

namespace {

const dataset_pair& drawn() {
  static const dataset_pair pair = find_dataset("digits")->load({});
  return pair;
}

}  // namespace

TEST_CASE("digits are 12,000 and 2,000 images of one channel, 28 x 28, and say so") {
  const dataset_kind& kind = *find_dataset("digits");
  CHECK(drawn().train->inputs.sizes() == at::IntArrayRef{12000, 1, 28, 28});
  CHECK(drawn().test->inputs.sizes() == at::IntArrayRef{2000, 1, 28, 28});
  CHECK(drawn().train->inputs.sizes().slice(1) == at::IntArrayRef{kind.sample_shape});
  CHECK((drawn().train->inputs.scalar_type() == at::kByte));
  CHECK((drawn().train->targets.scalar_type() == at::kLong));
  CHECK(drawn().train->classes.size() == static_cast<std::size_t>(kind.classes));
  CHECK(kind.folder.empty());
}

TEST_CASE("digits are drawn alike each time, and no two images are alike") {
  const dataset_pair again = find_dataset("digits")->load({});
  CHECK(at::equal(again.train->inputs, drawn().train->inputs));
  CHECK(at::equal(again.test->targets, drawn().test->targets));
  std::vector<std::string> images;
  for (const auto* set : {drawn().train.get(), drawn().test.get()}) {
    const auto* bytes = reinterpret_cast<const char*>(set->inputs.const_data_ptr<std::uint8_t>());
    for (std::int64_t index = 0; index < set->size(); ++index) images.emplace_back(bytes + index * 784, 784);
  }
  std::sort(images.begin(), images.end());
  CHECK(std::adjacent_find(images.begin(), images.end()) == images.end());
}

TEST_CASE("each ten digits in a row hold every class once") {
  for (const auto* set : {drawn().train.get(), drawn().test.get()}) {
    const at::Tensor tens = set->targets.reshape({-1, 10});
    CHECK(at::equal(std::get<0>(tens.sort(1)), at::arange(10).expand_as(tens)));
    CHECK_FALSE(at::equal(tens[0], tens[1]));
  }
}

TEST_CASE("digits use the whole range of a byte and have the stated mean and deviation") {
  const at::Tensor values = drawn().train->inputs.to(at::kDouble) / 255;
  CHECK(values.min().item<double>() == 0);
  CHECK(values.max().item<double>() == 1);
  const normalisation& stated = find_dataset("digits")->published;
  CHECK(std::abs(values.mean().item<double>() - stated.mean.at(0)) < 5e-5);
  CHECK(std::abs(values.std().item<double>() - stated.std.at(0)) < 5e-5);
  CHECK(drawn().scale.mean == stated.mean);
}

}  // namespace digits_test
