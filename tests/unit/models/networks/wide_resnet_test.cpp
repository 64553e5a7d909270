#include "tests/support/doctest.hpp"

#include "troupe/models/networks/network.hpp"
#include "troupe/models/storage/flat.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/rand.h>

namespace wide_resnet_test {

using namespace troupe::models;

namespace {

std::unique_ptr<network> narrow(double dropout = 0) {
  return make_network(*find_network("wide_resnet"), {.width = 1, .dropout = dropout}, 1);
}

at::Tensor drawn(network& net, const at::Tensor& input, std::uint64_t key) {
  net.train(true);
  net.draw_from(at::detail::createCPUGenerator(key));
  return net.forward(input).detach();
}

}  // namespace

TEST_CASE("wide_resnet is WRN-16-10 unless told otherwise") {
  const auto& kind = *find_network("wide_resnet");
  CHECK(layout_of(*make_network(kind, {.input = {3, 32, 32}}, 1)).parameter_count == 17'116'634);
  // WRN-28-1 is deeper by two blocks of two convolutions and two norms in each group.
  const auto deep = layout_of(*make_network(kind, {.input = {3, 32, 32}, .layers = 4, .width = 1}, 1));
  CHECK(deep.parameter_count == 369'498);
  CHECK(deep.parameters[1].name == "block1.layer.0.bn1.weight");
}

TEST_CASE("only where a group is wider than what it gets has it a shortcut of its own") {
  int shortcuts = 0;
  for (const auto& [name, tensor] : narrow()->parameters()) shortcuts += name.ends_with("convShortcut.weight") ? 1 : 0;
  CHECK(shortcuts == 2);
}

TEST_CASE("wide_resnet takes images of any size and drops by the generator it is given") {
  const auto net = narrow(0.5);
  const at::Tensor images = at::rand({4, 1, 28, 28});
  const at::Tensor first = drawn(*net, images, 3);
  CHECK(first.sizes() == at::IntArrayRef{4, 10});
  CHECK(drawn(*net, images, 3).equal(first));
  CHECK_FALSE(drawn(*net, images, 4).equal(first));
}

}  // namespace wide_resnet_test
