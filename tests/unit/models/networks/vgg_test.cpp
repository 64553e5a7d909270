#include "tests/support/doctest.hpp"

#include "troupe/models/networks/network.hpp"
#include "troupe/models/storage/flat.hpp"

#include <ATen/ops/rand.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace vgg_test {

using namespace troupe::models;

namespace {

const network_shape of_cifar{.input = {3, 32, 32}};

std::vector<std::string> names_of(const flat_layout& layout) {
  std::vector<std::string> names;
  for (const auto& entry : layout.parameters) names.push_back(entry.name);
  return names;
}

}  // namespace

TEST_CASE("vgg11 has the published numbers of parameters, under the names of Python's list of layers") {
  const auto plain = layout_of(*make_network(*find_network("vgg11"), of_cifar, 1));
  CHECK(plain.parameter_count == 9'225'610);
  CHECK(plain.buffers.empty());
  const auto names = names_of(plain);
  CHECK(names.front() == "features.0.weight");
  CHECK(names[2] == "features.3.weight");
  CHECK(names.back() == "classifier.bias");
  const auto normalised = layout_of(*make_network(*find_network("vgg11_bn"), of_cifar, 1));
  CHECK(normalised.parameter_count == 9'231'114);
  CHECK(names_of(normalised)[2] == "features.1.weight");
  CHECK(normalised.buffers.back().name == "features.26.num_batches_tracked");
}

TEST_CASE("vgg11 takes images of at least 32 x 32, and averages what is left of larger ones") {
  const auto net = make_network(*find_network("vgg11"), {.input = {1, 70, 64}, .classes = 3}, 1);
  net->train(false);
  CHECK(net->forward(at::rand({2, 1, 70, 64})).sizes() == at::IntArrayRef{2, 3});
  CHECK_THROWS_AS(make_network(*find_network("vgg11_bn"), {.input = {3, 28, 28}}, 1), std::invalid_argument);
}

}  // namespace vgg_test
