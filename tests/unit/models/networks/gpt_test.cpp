#include "tests/support/doctest.hpp"

#include "troupe/models/networks/gradient_hooks.hpp"
#include "troupe/models/networks/network.hpp"
#include "troupe/models/storage/flat.hpp"
#include "troupe/models/storage/tied.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/erf.h>
#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <map>
#include <stdexcept>

namespace gpt_test {

using namespace troupe::models;

namespace {

const network_shape small{.input = {6}, .classes = 9, .layers = 2, .width = 8, .heads = 2};

std::unique_ptr<network> make(const network_shape& shape = small) {
  return make_network(*find_network("gpt"), shape, 1);
}

at::Tensor text(std::int64_t count = 3) {
  return (at::arange(count * 6, at::kLong) * 5 % 9).view({count, 6});
}

// The formulas of nanoGPT's model.py, written out with the weights of `net`.
at::Tensor by_formula(const network& net, const at::Tensor& input) {
  std::map<std::string, at::Tensor> of;
  for (const auto& [name, tensor] : net.parameters()) of[name] = tensor.detach();
  const auto linear = [&](const std::string& name, const at::Tensor& x) {
    return at::matmul(x, of.at(name + ".weight").t()) + of.at(name + ".bias");
  };
  const auto norm = [&](const std::string& name, const at::Tensor& x) {
    const at::Tensor apart = x - x.mean(-1, true);
    return apart / (apart.square().mean(-1, true) + 1e-5).sqrt() * of.at(name + ".weight") + of.at(name + ".bias");
  };
  at::Tensor x = of.at("transformer.wte.weight").index({input}) + of.at("transformer.wpe.weight");
  for (const std::string block : {"transformer.h.0.", "transformer.h.1."}) {
    const auto parts = linear(block + "attn.c_attn", norm(block + "ln_1", x)).split(8, 2);
    std::vector<at::Tensor> heads;
    for (std::int64_t head = 0; head < 2; ++head) {
      const auto part = [&](int which) { return parts[which].narrow(2, 4 * head, 4); };
      at::Tensor scores = at::matmul(part(0), part(1).transpose(1, 2)) / 2.0;
      scores = scores + at::full({6, 6}, -1e30).triu(1);
      heads.push_back(at::matmul(at::softmax(scores, 2), part(2)));
    }
    x = x + linear(block + "attn.c_proj", at::cat(heads, 2));
    const at::Tensor wide = linear(block + "mlp.c_fc", norm(block + "ln_2", x));
    x = x + linear(block + "mlp.c_proj", wide * 0.5 * (1 + at::erf(wide / std::sqrt(2.0))));
  }
  return at::matmul(norm("transformer.ln_f", x), of.at("lm_head.weight").t());
}

}  // namespace

TEST_CASE("a gpt has nanoGPT's names and sizes, and its output is tied to its table") {
  const auto net = make();
  const auto layout = layout_of(*net);
  // Table 9·8, positions 6·8; a block 8·24 + 24 + 8·8 + 8 and 8·32 + 32 + 32·8 + 8 and two norms; the last norm.
  CHECK(layout.parameter_count == 72 + 48 + 2 * (216 + 72 + 288 + 264 + 32) + 16);
  CHECK(layout.parameters.front().name == "transformer.wte.weight");
  CHECK(layout.parameters.back().name == "transformer.ln_f.bias");
  const auto tied = tied_names_of(*net);
  REQUIRE(tied.size() == 1);
  CHECK(tied.front().name == "lm_head.weight");
  CHECK(tied.front().first == "transformer.wte.weight");
}

TEST_CASE("a gpt is nanoGPT's formulas") {
  const auto net = make();
  const at::Tensor output = net->forward(text());
  CHECK(output.sizes() == at::IntArrayRef{3, 6, 9});
  CHECK(at::allclose(output, by_formula(*net, text()), 1e-4, 1e-5));
}

TEST_CASE("a gpt begins with nanoGPT's weights after torch.manual_seed(1) in Python") {
  // The first and the last score of each, by tests/parity/plain_models.py: Gpt(9, 6, layers=2, width=8, heads=2).
  struct expected {
    const char* name;
    float first, last;
  };
  const auto net = make();
  for (const auto& [name, first, last] :
       {expected{"transformer.wte.weight", 0.0169564132f, -0.00292587723f},
        expected{"lm_head.weight", 0.0169564132f, -0.00292587723f},
        expected{"transformer.wpe.weight", 0.0238837525f, -0.00722327735f},
        expected{"transformer.h.0.attn.c_attn.weight", -0.0253079105f, 0.0092602903f},
        expected{"transformer.h.1.mlp.c_proj.weight", -0.00467373803f, 0.00573753333f}}) {
    CAPTURE(name);
    for (const auto& [known, tensor] : net->parameters()) {
      if (known != name) continue;
      CHECK(tensor.detach().flatten()[0].item<float>() == first);
      CHECK(tensor.detach().flatten()[-1].item<float>() == last);
    }
  }
}

TEST_CASE("normal weights of a gpt are those of its linear layers, and its output stays tied to its table") {
  network_shape shape = small;
  shape.width = 64;
  const auto own = make(shape);
  shape.normal = normal_initializer{.deviation = 0.5};
  const auto net = make(shape);
  CHECK(tied_names_of(*net).size() == 1);
  const auto all = net->parameters(), before = own->parameters();
  for (std::size_t index = 0; index < all.size(); ++index) {
    const auto& [name, tensor] = all[index];
    CAPTURE(name);
    const bool linear =
        name.find(".ln_") == std::string::npos && name.ends_with("weight") && !name.ends_with("wpe.weight");
    if (linear)
      CHECK(std::abs(tensor.std().item<double>() / 0.5 - 1) < 5 / std::sqrt(2.0 * static_cast<double>(tensor.numel())));
    else
      CHECK(tensor.equal(before[index].second));  // norms, biases and position embeddings
  }
  CHECK(all.front().first == "transformer.wte.weight");
  CHECK(all.back().first == "lm_head.weight");
  CHECK(all.back().second.is_same(all.front().second));
}

TEST_CASE("with dropout, attention by hand is that of the fused operator but for what is dropped") {
  auto shape = small;
  shape.dropout = 1e-12;  // drops nothing, but takes the code path of dropout
  const auto net = make(shape);
  net->train(true);
  net->draw_from(at::detail::createCPUGenerator(1));
  CHECK(at::allclose(net->forward(text()), by_formula(*net, text()), 1e-4, 1e-5));
}

TEST_CASE("all a gpt drops is drawn from the generator it is given") {
  auto shape = small;
  shape.dropout = 0.5;
  const auto net = make(shape);
  net->train(true);
  const auto drawn = [&](std::uint64_t key) {
    net->draw_from(at::detail::createCPUGenerator(key));
    return net->forward(text()).detach();
  };
  const at::Tensor first = drawn(5);
  at::rand({7});
  CHECK(drawn(5).equal(first));
  CHECK_FALSE(drawn(6).equal(first));
}

TEST_CASE("what comes later changes nothing") {
  const auto net = make();
  at::Tensor other = text();
  other.narrow(1, 4, 2).fill_(0);
  const at::Tensor a = net->forward(text()), b = net->forward(other);
  CHECK(at::allclose(a.narrow(1, 0, 4), b.narrow(1, 0, 4), 1e-5, 1e-6));
  CHECK_FALSE(at::allclose(a.narrow(1, 4, 2), b.narrow(1, 4, 2), 1e-5, 1e-6));
}

TEST_CASE("both uses of the tied table add to its gradient, in flat storage") {
  const auto net = make();
  const auto layout = layout_of(*net);
  buffer_pool pool;
  const at::Tensor flat = flatten(*net, layout, pool), gradient = pool.take_zeros(layout.parameter_end);
  bind_weights(*net, layout, flat);
  bind_gradients(*net, layout, gradient);
  mean_loss(loss_function::cross_entropy, net->forward(text()), text()).backward();
  const at::Tensor table = gradient.narrow(0, 0, 72).view({9, 8});
  CHECK(table.ne(0).all().item<bool>());  // characters that no text contains get a gradient as possible outputs
  flat.narrow(0, 0, 72).zero_();
  CHECK(net->forward(text()).abs().max().item<float>() == 0);  // the output layer shares this memory
}

TEST_CASE("the order of a gpt's gradients is found from characters") {
  const auto net = make();
  const auto count = layout_of(*net).parameters.size();
  const auto order = gradient_order(*net, small, loss_function::cross_entropy, sample_kind::characters, true);
  CHECK(order.size() == count);
  CHECK(order.front() == count - 2);  // the last norm; the table has to wait until backward reaches the embedding
}

TEST_CASE("under autocast a gpt computes in bfloat16, near what it computes in float32") {
  for (const double dropout : {0.0, 1e-12}) {
    auto shape = small;
    shape.dropout = dropout;
    const auto net = make(shape);
    net->train(true);
    net->draw_from(at::detail::createCPUGenerator(1));
    const at::Tensor whole = net->forward(text()).detach();
    at::autocast::set_autocast_enabled(at::kCPU, true);
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    const at::Tensor half = net->forward(text());
    at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, false);
    CHECK((half.scalar_type() == at::kBFloat16));
    CHECK(at::allclose(half.to(at::kFloat), whole, 0.1, 0.02));
    half.to(at::kFloat).sum().backward();
    for (const auto& [name, tensor] : net->parameters()) CHECK((tensor.grad().scalar_type() == at::kFloat));
  }
}

TEST_CASE("a gpt says what it cannot be") {
  CHECK_THROWS_WITH_AS(make({.input = {6}, .classes = 9, .width = 8, .heads = 3}),
                       "model.width = 8 is not a multiple of model.heads = 3; use for instance 6 or 9", setting_error);
  CHECK_THROWS_WITH_AS(make({.input = {6}, .classes = 9, .width = 2, .heads = 3}),
                       "model.width = 2 is not a multiple of model.heads = 3; use for instance 3", setting_error);
  CHECK_THROWS_WITH_AS(make({.input = {6}, .classes = 9, .heads = 6}),
                       "model.heads = 6 does not divide model.width = 128; use for instance 4", setting_error);
  CHECK_THROWS_AS(make({}), std::invalid_argument);
  CHECK_THROWS_AS(make()->forward(at::zeros({2, 6})), std::invalid_argument);
}

}  // namespace gpt_test
