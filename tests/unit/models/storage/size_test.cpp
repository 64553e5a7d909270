#include "troupe/models/storage/size.hpp"

#include "tests/support/doctest.hpp"

#include "troupe/models/storage/flat.hpp"

#include <ATen/ops/empty.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace size_test {

using namespace troupe::models;

TEST_CASE("the size of a model is known without making it") {
  const std::vector<std::pair<std::string, network_shape>> made{
      {"convnet", {}},
      {"lenet", {}},
      {"lenet", {.input = {3, 40, 24}, .classes = 7}},
      {"resnet20", {.input = {3, 32, 32}}},
      {"resnet18", {.input = {3, 32, 32}, .normal = normal_initializer{}}},
      {"resnet18_small_images", {.input = {3, 32, 32}}},
      {"vgg11", {.input = {3, 32, 32}}},
      {"vgg11_bn", {.input = {3, 32, 32}}},
      {"wide_resnet", {.input = {3, 32, 32}, .layers = 10, .width = 1}},
      {"wide_resnet_pooled", {.input = {3, 32, 32}, .width = 1}},
      {"mlp", {.layers = 3, .width = 33}},
      {"gpt", {.input = {16}, .classes = 30, .layers = 2, .width = 32, .heads = 4}},
      {"logistic", {.input = {1000}, .classes = 2}},
      {"svm", {.input = {999}, .classes = 2}},
      {"matrix_completion", {.input = {30, 20}, .classes = 0, .rank = 7}}};
  std::size_t kinds = 0;
  for (const auto& kind : network_kinds())
    for (const auto& [name, shape] : made) {
      if (kind.name != name) continue;
      CAPTURE(name);
      CHECK(flat_size(kind, shape) == layout_of(*make_network(kind, shape, 1)).total);
      kinds += name != "lenet" || shape.classes == 10;
    }
  CHECK(kinds + 2 == network_kinds().size());  // the sizes of models that are read from files are in the files
}

TEST_CASE("the size of a model that no machine holds is known") {
  const auto& mlp = *find_network("mlp");
  const std::int64_t width = 65'536;
  const auto large = flat_size(mlp, {.input = {1, 8, 8}, .classes = 16, .layers = 1000, .width = width});
  CHECK(large > 900 * width * width);
  CHECK(at::empty({1}).is_cpu());  // later tensors have memory again
  CHECK_THROWS_AS(flat_size(*find_network("vgg11"), {.input = {1, 8, 8}}), std::invalid_argument);
}

}  // namespace size_test
