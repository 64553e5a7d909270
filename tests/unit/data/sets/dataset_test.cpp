#include "troupe/data/sets/dataset.hpp"

#include "tests/support/doctest.hpp"

#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>

#include <cstdlib>

namespace dataset_test {

using namespace troupe::data;

namespace {

// Two colour images of 1 x 2: bytes 0 to 5 and 250 to 255.
dataset tiny() {
  return {at::tensor({0, 1, 2, 3, 4, 5, 250, 251, 252, 253, 254, 255}, at::kByte).reshape({2, 3, 1, 2}),
          at::tensor({4, 7}, at::kLong),
          {}};
}

std::vector<float> values(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<float>(), tensor.const_data_ptr<float>() + tensor.numel()};
}

}  // namespace

TEST_CASE("a batch holds the samples asked for, in that order") {
  const batch made = make_batch(tiny(), {}, {1, 0, 1});
  CHECK(made.inputs.sizes() == at::IntArrayRef{3, 3, 1, 2});
  CHECK(at::equal(made.targets, at::tensor({7, 4, 7}, at::kLong)));
  CHECK(values(made.inputs[0]) ==
        std::vector<float>{250 / 255.f, 251 / 255.f, 252 / 255.f, 253 / 255.f, 254 / 255.f, 1.f});
  CHECK(values(made.inputs[1])[5] == 5 / 255.f);
}

TEST_CASE("a batch is scaled by channel, with the bits of PyTorch's ToTensor and Normalize") {
  const normalisation scale{{0.1307, 0.5, 0.25}, {0.3081, 0.25, 2.0}};
  const at::Tensor made = make_batch(tiny(), scale, {0, 1}).inputs;
  const at::Tensor mean = at::tensor({0.1307, 0.5, 0.25}, at::kFloat).reshape({1, 3, 1, 1});
  const at::Tensor std = at::tensor({0.3081, 0.25, 2.0}, at::kFloat).reshape({1, 3, 1, 1});
  CHECK(at::equal(made, tiny().inputs.to(at::kFloat).div(255).sub(mean).div(std)));
}

TEST_CASE("a sample that the set does not have is refused") {
  CHECK_THROWS_AS(make_batch(tiny(), {}, {2}), std::out_of_range);
  CHECK_THROWS_AS(make_batch(tiny(), {}, {-1}), std::out_of_range);
  CHECK(make_batch(tiny(), {}, {}).inputs.size(0) == 0);
}

TEST_CASE("data sets are found by name") {
  CHECK(dataset_kinds().front().name == "digits");
  CHECK(find_dataset("mnist")->folder == "mnist");
  CHECK(find_dataset("fashion_mnist")->folder == "fashion-mnist");
  CHECK(find_dataset("imagenet") == nullptr);
}

TEST_CASE("the data folder is the one given, else TROUPE_DATA, else data-cache") {
  const char* present = std::getenv("TROUPE_DATA");
  const std::string kept = present != nullptr ? present : "";
  setenv("TROUPE_DATA", "/from/environment", 1);
  CHECK(data_folder("given") == "given");
  CHECK(data_folder("") == "/from/environment");
  setenv("TROUPE_DATA", "", 1);
  CHECK(data_folder("") == "data-cache");
  unsetenv("TROUPE_DATA");
  CHECK(data_folder("") == "data-cache");
  if (present != nullptr) setenv("TROUPE_DATA", kept.c_str(), 1);
}

}  // namespace dataset_test
