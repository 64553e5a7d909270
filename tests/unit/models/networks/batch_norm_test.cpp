#include "troupe/models/networks/batch_norm.hpp"

#include "tests/support/doctest.hpp"

#include "troupe/models/networks/module.hpp"
#include "troupe/models/storage/flat.hpp"

#include <ATen/autocast_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>

#include <algorithm>
#include <barrier>
#include <stdexcept>
#include <thread>

namespace batch_norm_test {

using namespace troupe::models;

namespace {

// Two norms with a convolution between them: the gradient of the first depends on the exchange of the second.
class SmallImpl final : public random_module {
 public:
  SmallImpl() {
    norm1 = register_module("norm1", BatchNorm2d(3));
    conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 4, 3)));
    norm2 = register_module("norm2", BatchNorm2d(4));
  }
  at::Tensor forward(const at::Tensor& x) override {
    return norm2->forward(conv->forward(norm1->forward(x)).relu()).mean({2, 3});
  }

 private:
  BatchNorm2d norm1{nullptr}, norm2{nullptr};
  torch::nn::Conv2d conv{nullptr};
};

std::unique_ptr<network> small() {
  at::manual_seed(3);
  auto net = as_built_in(std::make_shared<SmallImpl>(), loss_function::cross_entropy);
  const at::NoGradGuard off;
  for (const auto& [name, tensor] : net->parameters()) {
    if (tensor.dim() == 1) tensor.add_(at::randn(tensor.sizes()), 0.3);
  }
  return net;
}

at::Tensor pictures(std::int64_t count) {
  // Far from zero, where E[x²] − E[x]² in single precision has few significant digits.
  return at::arange(count * 3 * 5 * 5, at::kFloat).mul(1.7).sin().reshape({count, 3, 5, 5}) + 4;
}

// Replicas that meet at each exchange, in double precision: means are averaged. The overall mean and variance are
// computed from E[x²] = v + m², which a double represents accurately for the values here.
class meeting {
 public:
  explicit meeting(std::size_t members)
      : own_(members), samples_(members), layers_(members), all_here_{count(members)} {}

  group_mean of(std::size_t rank) {
    return [this, rank](std::size_t layer, bool backward, const at::Tensor& own, std::int64_t samples) {
      own_[rank] = own;
      samples_[rank] = samples;
      layers_[rank].emplace_back(layer, backward);
      all_here_.arrive_and_wait();
      at::Tensor sum = at::zeros_like(own, at::kDouble);
      group_means found;
      for (std::size_t each = 0; each < own_.size(); ++each) {
        const auto brought = own_[each].to(at::kDouble).chunk(2);
        const at::Tensor second = backward ? brought[1] : brought[1] + brought[0].square();
        sum += at::cat({brought[0], second}) * static_cast<double>(samples_[each]);
        found.samples += samples_[each];
      }
      const auto means = (sum / static_cast<double>(found.samples)).chunk(2);
      found.values = at::cat({means[0], backward ? means[1] : means[1] - means[0].square()}).to(at::kFloat);
      all_here_.arrive_and_wait();
      return found;
    };
  }

  const std::vector<std::pair<std::size_t, bool>>& exchanges(std::size_t rank) const { return layers_[rank]; }

 private:
  static std::ptrdiff_t count(std::size_t members) { return static_cast<std::ptrdiff_t>(members); }

  std::vector<at::Tensor> own_;
  std::vector<std::int64_t> samples_;
  std::vector<std::vector<std::pair<std::size_t, bool>>> layers_;
  std::barrier<> all_here_;
};

struct outcome {
  at::Tensor output, input_gradient;
};

// Two steps of a loss that is a sum over samples, so that parts of any size add up; gradients add up over the steps.
outcome trained(network& net, const at::Tensor& pictures) {
  outcome made;
  for (int step = 0; step < 2; ++step) {
    const at::Tensor input = (pictures + step).requires_grad_();
    made.output = net.forward(input);
    made.output.pow(3).sum().backward();
    made.input_gradient = input.grad();
  }
  return made;
}

// Returns the largest difference, relative to the largest value if that is above 1.
double apart(const at::Tensor& found, const at::Tensor& expected) {
  const at::Tensor right = expected.detach();
  return (found.detach() - right).abs().max().item<double>() / std::max(1.0, right.abs().max().item<double>());
}

void check_parts(const std::vector<std::int64_t>& parts) {
  std::int64_t total = 0;
  for (const std::int64_t part : parts) total += part;
  const at::Tensor whole = pictures(total);
  const auto alone = small();
  const outcome expected = trained(*alone, whole);

  meeting group{parts.size()};
  std::vector<std::unique_ptr<network>> replicas;
  std::vector<outcome> found(parts.size());
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    replicas.push_back(small());
    replicas.back()->synchronise(group.of(rank));
  }
  std::vector<std::thread> threads;
  std::int64_t first = 0;
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    const at::Tensor part = whole.narrow(0, first, parts[rank]).clone();
    first += parts[rank];
    threads.emplace_back([&, rank, part] { found[rank] = trained(*replicas[rank], part); });
  }
  for (auto& thread : threads) thread.join();

  first = 0;
  const auto buffers = alone->buffers();
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    CHECK(apart(found[rank].output, expected.output.narrow(0, first, parts[rank])) < 1e-5);
    CHECK(apart(found[rank].input_gradient, expected.input_gradient.narrow(0, first, parts[rank])) < 1e-5);
    first += parts[rank];
    using exchanges = std::vector<std::pair<std::size_t, bool>>;
    const exchanges step{{0, false}, {1, false}, {1, true}, {0, true}};
    CHECK(exchanges(group.exchanges(rank).begin(), group.exchanges(rank).begin() + 4) == step);
    const auto found_buffers = replicas[rank]->buffers(), first_buffers = replicas[0]->buffers();
    for (std::size_t index = 0; index < buffers.size(); ++index) {
      const std::string& name = buffers[index].first;
      CAPTURE(name);
      CHECK(apart(found_buffers[index].second, buffers[index].second) < 1e-5);
      CHECK(at::equal(found_buffers[index].second, first_buffers[index].second));
    }
  }
  const auto parameters = alone->parameters();
  for (std::size_t index = 0; index < parameters.size(); ++index) {
    const std::string& name = parameters[index].first;
    const at::Tensor& parameter = parameters[index].second;
    at::Tensor sum = at::zeros_like(parameter);
    for (const auto& replica : replicas) sum = sum + replica->parameters()[index].second.grad();
    CAPTURE(name);
    CHECK(apart(sum, parameter.grad()) < 1e-5);
  }
}

}  // namespace

TEST_CASE("batch norm alone has the bits of PyTorch's, in training and out of it") {
  BatchNorm2d own{3};
  torch::nn::BatchNorm2d torchs{3};
  const auto same = [&](const at::Tensor& pictures) {
    const at::Tensor ours = pictures.clone().requires_grad_(), theirs = pictures.clone().requires_grad_();
    const at::Tensor found = own->forward(ours), expected = torchs->forward(theirs);
    CHECK(at::equal(found, expected));
    found.pow(3).sum().backward();
    expected.pow(3).sum().backward();
    CHECK(at::equal(ours.grad(), theirs.grad()));
    CHECK(at::equal(own->weight.grad(), torchs->weight.grad()));
    CHECK(at::equal(own->bias.grad(), torchs->bias.grad()));
    CHECK(at::equal(own->running_mean, torchs->running_mean));
    CHECK(at::equal(own->running_var, torchs->running_var));
    CHECK(at::equal(own->num_batches_tracked, torchs->num_batches_tracked));
  };
  same(pictures(4));
  same(pictures(3) * 2);
  own->eval();
  torchs->eval();
  same(pictures(2));
}

TEST_CASE("three replicas with parts of a batch are one with the whole of it") {
  SUBCASE("equal parts") {
    check_parts({2, 2, 2});
  }
  SUBCASE("unequal parts") {
    check_parts({1, 4, 2});
  }
  SUBCASE("a group of one") {
    check_parts({3});
  }
}

TEST_CASE("a group finds a small deviation about a large mean in its first step, running statistics still cold") {
  // Two replicas, means 1000 and 1000.01, deviation 0.01: in float32 x² has steps of 0.06.
  const at::Tensor noise = at::arange(2 * 4 * 3 * 6 * 6, at::kDouble).mul(1.7).sin().mul(0.01).reshape({2, 4, 3, 6, 6});
  const at::Tensor pictures = (noise + at::tensor({1000.0, 1000.01}).view({2, 1, 1, 1, 1})).to(at::kFloat);
  meeting group{2};
  std::vector<BatchNorm2d> norms{BatchNorm2d(3), BatchNorm2d(3)};
  std::vector<at::Tensor> found(2);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    norms[rank]->synchronise(group.of(rank), 0);
    threads.emplace_back(
        [&, rank] { found[rank] = norms[rank]->forward(pictures[static_cast<std::int64_t>(rank)]).detach(); });
  }
  for (auto& thread : threads) thread.join();
  // PyTorch's batch norm over the whole batch, in double precision.
  torch::nn::BatchNorm2d exact{3};
  exact->to(at::kDouble);
  const at::Tensor expected = exact->forward(pictures.flatten(0, 1).to(at::kDouble)).detach();
  const auto of_first_step = [](const at::Tensor& running_var) { return (running_var.to(at::kDouble) - 0.9) / 0.1; };
  for (std::size_t rank = 0; rank < 2; ++rank) {
    // A mean of 1000 is rounded to 3e-5 in float32, which is 0.003 deviations.
    CHECK(apart(found[rank].to(at::kDouble), expected.narrow(0, 4 * static_cast<std::int64_t>(rank), 4)) < 0.005);
    CHECK(at::allclose(norms[rank]->running_mean.to(at::kDouble), exact->running_mean, 1e-6, 0));
    CHECK(at::allclose(of_first_step(norms[rank]->running_var), of_first_step(exact->running_var), 0.02, 0));
  }
}

TEST_CASE("a group is asked in training only, and no more once it is null") {
  const auto net = small();
  int asked = 0;
  net->synchronise([&](std::size_t, bool, const at::Tensor& own, std::int64_t samples) {
    ++asked;
    return group_means{own, samples};
  });
  net->train(false);
  net->forward(pictures(2));
  CHECK(asked == 0);
  net->train(true);
  net->forward(pictures(2)).sum().backward();
  CHECK(asked == 4);
  net->synchronise(nullptr);
  net->forward(pictures(2)).sum().backward();
  CHECK(asked == 4);
}

TEST_CASE("what a group throws comes out of the forward and of the backward pass") {
  const auto net = small();
  bool at_backward = false;
  net->synchronise([&](std::size_t, bool backward, const at::Tensor& own, std::int64_t samples) {
    if (backward == at_backward) throw std::runtime_error("a replica is lost");
    return group_means{own, samples};
  });
  CHECK_THROWS_WITH_AS(net->forward(pictures(2)), "a replica is lost", std::runtime_error);
  at_backward = true;
  const at::Tensor loss = net->forward(pictures(2)).sum();
  CHECK_THROWS_WITH_AS(loss.backward(), "a replica is lost", std::runtime_error);
}

TEST_CASE("a single value has no variance: it is refused, unless others of the group bring more") {
  BatchNorm2d norm{3};
  const at::Tensor point = at::ones({1, 3, 1, 1});
  CHECK_THROWS_AS(norm->forward(point), std::invalid_argument);
  norm->synchronise([](std::size_t, bool, const at::Tensor& own, std::int64_t) { return group_means{own, 1}; }, 0);
  CHECK_THROWS_AS(norm->forward(point), std::invalid_argument);
  norm->synchronise([](std::size_t, bool, const at::Tensor& own, std::int64_t) { return group_means{own, 2}; }, 0);
  CHECK_NOTHROW(norm->forward(point));
}

TEST_CASE("batches are counted in the flat storage, and are an integer again in a state dict") {
  const auto net = small();
  buffer_pool pool;
  const flat_layout layout = layout_of(*net);
  REQUIRE(layout.buffers.size() == 6);
  CHECK(layout.buffers[2].name == "norm1.num_batches_tracked");
  CHECK(layout.buffers[2].integer);
  CHECK_FALSE(layout.buffers[0].integer);
  const at::Tensor flat = flatten(*net, layout, pool);
  bind_weights(*net, layout, flat);
  for (int step = 0; step < 3; ++step) net->forward(pictures(2));
  CHECK(flat[layout.buffers[2].first].item<float>() == 3);
  CHECK(flat[layout.buffers[0].first].item<float>() != 0);
  for (const auto& [name, tensor] : unflatten(layout, flat)) {
    if (name != "norm1.num_batches_tracked") continue;
    CHECK((tensor.scalar_type() == at::kLong));
    CHECK(tensor.dim() == 0);
    CHECK(tensor.item<std::int64_t>() == 3);
  }
}

TEST_CASE("under autocast both ways take bfloat16 and keep weights and statistics in float32") {
  for (const bool grouped : {false, true}) {
    const auto net = small(), whole = small();
    for (const auto* each : {&net, &whole}) {
      (*each)->train(true);
      if (grouped)
        (*each)->synchronise([](std::size_t, bool, const at::Tensor& own, std::int64_t samples) {
          CHECK((own.scalar_type() == at::kFloat));
          return group_means{own, samples};
        });
    }
    const at::Tensor right = whole->forward(pictures(4)).detach();
    at::autocast::set_autocast_enabled(at::kCPU, true);
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    const at::Tensor found = net->forward(pictures(4));
    at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, false);
    CHECK((found.scalar_type() == at::kBFloat16));
    CHECK(at::allclose(found.detach().to(at::kFloat), right, 0.1, 0.05));
    found.to(at::kFloat).square().sum().backward();
    for (const auto& [name, tensor] : net->parameters()) CHECK((tensor.grad().scalar_type() == at::kFloat));
    for (const auto& [name, tensor] : net->buffers()) CHECK((tensor.scalar_type() == at::kFloat));
  }
}

}  // namespace batch_norm_test
