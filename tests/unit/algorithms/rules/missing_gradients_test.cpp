// Tensors without a gradient: how they are marked, which operations keep the mark, and how optimizers treat them.
#include "troupe/algorithms/rules/missing_gradients.hpp"

#include "tests/support/doctest.hpp"

#include "troupe/algorithms/exchange/around/encoded.hpp"
#include "troupe/algorithms/rules/reduce.hpp"
#include "troupe/algorithms/training/optimizer.hpp"
#include "troupe/algorithms/training/optimizer_kinds.hpp"
#include "troupe/models/storage/buffer_pool.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace missing_gradients_test {

namespace {

using namespace troupe;

/// Three tensors with padding behind them. None is as long as a vector register or a multiple of it.
const std::vector<range> tensors{{0, 37}, {48, 19}, {80, 21}};
constexpr std::int64_t parameters = 112;

using absence = std::vector<bool>;

at::Tensor gradient_of(std::uint64_t step) {
  auto generator = at::detail::createCPUGenerator(step + 1);
  auto gradient = at::zeros({parameters});
  for (const auto& where : tensors)
    gradient.narrow(0, where.first, where.count).copy_(at::randn({where.count}, generator));
  return gradient;
}

at::Tensor gradient_without(const absence& missing, std::uint64_t step) {
  auto gradient = gradient_of(step);
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (missing[i]) rules::mark_missing(gradient, tensors[i]);
  return gradient;
}

/// By step: the first tensor always has a gradient, the second never has one, and the third sometimes has one.
const std::vector<absence> as_by_step{{false, true, true},  {false, true, false}, {false, true, false},
                                      {false, true, true},  {false, true, false}, {false, true, true},
                                      {false, true, false}, {false, true, false}};
const std::vector<absence> nothing_missing_at_first{{false, false, false}, {false, false, false},
                                                    {false, true, true},   {false, true, false},
                                                    {true, true, true},    {false, false, false}};

std::vector<std::pair<std::string, optimizer_options>> variants() {
  std::vector<std::pair<std::string, optimizer_options>> all;
  for (const auto& kind : optimizer_kinds()) {
    optimizer_options options{.name = kind.name, .lr = 0.1, .weight_decay = 0.5, .tensors = tensors};
    all.emplace_back(kind.name, options);
    options.undecayed = {{48, 32}};
    all.emplace_back(kind.name + " with an undecayed tensor", options);
    options.undecayed = {};
    if (goes_by(kind, "momentum")) {
      options.momentum = 0.9;
      all.emplace_back(kind.name + " with momentum", options);
    }
    if (goes_by(kind, "grad_averaging")) {
      options.grad_averaging = options.starts_at_gradient = true;
      all.emplace_back(kind.name + " with averaged gradients", options);
    }
  }
  return all;
}

/// Takes the steps from `first` on. At each step, the tensors that `missing` lists for it have no gradient.
at::Tensor stepped(optimizer& engine, at::Tensor weights, const std::vector<absence>& missing, std::size_t first = 0,
                   std::size_t end = 100) {
  for (auto step = first; step < std::min(end, missing.size()); ++step) {
    weights = weights.clone();
    engine.step(weights, gradient_without(missing[step], step), 1, 0);
  }
  return weights;
}

/// Does the same for one tensor by itself and leaves out the steps in which it has no gradient.
at::Tensor stepped_alone(const optimizer_options& options, std::size_t tensor, const at::Tensor& weights,
                         const std::vector<absence>& missing) {
  const auto& where = tensors[tensor];
  auto own = within(options, where);
  if (options.name != "novograd") own.tensors = {};
  const auto engine = make_optimizer(own);
  auto x = weights.narrow(0, where.first, where.count).clone();
  for (std::size_t step = 0; step < missing.size(); ++step)
    if (!missing[step][tensor]) engine->step(x, gradient_of(step).narrow(0, where.first, where.count), 1, 0);
  return x;
}

}  // namespace

TEST_CASE("a gradient that was not computed differs from one that is zero") {
  auto gradient = at::zeros({parameters});
  CHECK(rules::missing_in(gradient, tensors) == absence{false, false, false});
  rules::mark_missing(gradient, tensors[1]);
  CHECK(rules::missing_in(gradient, tensors) == absence{false, true, false});
  gradient.narrow(0, tensors[1].first, tensors[1].count).add_(at::zeros({tensors[1].count}));
  CHECK(rules::missing_in(gradient, tensors) == absence{false, false, false});
}

TEST_CASE("a mean of gradients has none where no summand has one, and zeros stand for the others") {
  models::buffer_pool pool;
  const std::vector<rules::weighted> summands{{gradient_without({false, true, true}, 1), 3},
                                              {gradient_without({false, true, false}, 2), 5},
                                              {gradient_without({false, true, true}, 3), 8}};
  const auto mean = rules::mean_in_order(summands, pool);
  CHECK(rules::missing_in(mean, tensors) == absence{false, true, false});
  const auto third = [](const at::Tensor& flat) { return flat.narrow(0, tensors[2].first, tensors[2].count); };
  CHECK(third(mean).allclose(third(gradient_of(2)) * 5 / 16));
  const auto in_steps = rules::fold_last(rules::fold_next(rules::fold_next({}, summands[0], pool), summands[1], pool),
                                         summands[2], 16, pool);
  CHECK(in_steps.equal(mean));
  CHECK(rules::missing_in(in_steps, tensors) == absence{false, true, false});
}

TEST_CASE("encodings that round each value keep that there is no gradient") {
  models::buffer_pool pool;
  const part sent{.piece = {0, gradient_without({false, true, true}, 1)}};
  for (const auto* name : {"bf16", "fp16", "int8", "int4"}) {
    CAPTURE(name);
    const auto how = encoding_named(name);
    const auto received = decoded(encoded(sent, how, codec_of(how).encode(sent.piece.values, {})), pool);
    CHECK(rules::missing_in(received.piece.values, tensors) == absence{false, true, true});
  }
}

TEST_CASE("with every optimizer, a tensor takes the steps in which it has a gradient as if it were alone") {
  const auto initial = gradient_of(1000);
  for (const auto& [name, options] : variants())
    for (const auto& missing : {as_by_step, nothing_missing_at_first}) {
      CAPTURE(name);
      const auto found = stepped(*make_optimizer(options), initial, missing);
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        CAPTURE(i);
        const auto own = found.narrow(0, tensors[i].first, tensors[i].count);
        CHECK(own.allclose(stepped_alone(options, i, initial, missing), 1e-5, 1e-6));
      }
    }
}

TEST_CASE("a tensor that never has a gradient keeps its bits, whatever else the optimizer does") {
  const auto initial = gradient_of(1000);
  for (auto [name, options] : variants()) {
    CAPTURE(name);
    options.clip_norm = 0.5;
    const auto found = stepped(*make_optimizer(options), initial, as_by_step);
    CHECK(found.narrow(0, 48, 32).equal(initial.narrow(0, 48, 32)));
    CHECK_FALSE(found.narrow(0, 0, 37).equal(initial.narrow(0, 0, 37)));
    if (options.name == "novograd") continue;
    options.tensors = {};  // then a missing gradient is a gradient of zeros
    const auto decayed = stepped(*make_optimizer(options), initial, as_by_step);
    CHECK(decayed.narrow(0, 48, 32).equal(initial.narrow(0, 48, 32)) == !options.undecayed.empty());
  }
}

TEST_CASE("an optimizer goes on from a state bit for bit where gradients have been missing") {
  const auto initial = gradient_of(1000);
  for (const auto& [name, options] : variants())
    for (const auto& missing : {as_by_step, nothing_missing_at_first})
      for (const std::size_t before : {1, 3, 4, 5}) {
        CAPTURE(name);
        CAPTURE(before);
        const auto uninterrupted = make_optimizer(options), restored = make_optimizer(options);
        const auto then = stepped(*uninterrupted, initial, missing, 0, before);
        const auto saved = uninterrupted->state();
        restored->restore(saved);
        const auto found = restored->state();
        CHECK(found.entries().size() == saved.entries().size());
        for (const auto& [entry, values] : saved.entries()) CHECK(found.entries().at(entry).equal(values));
        const auto expected = stepped(*uninterrupted, then, missing, before);
        CHECK(stepped(*restored, then, missing, before).equal(expected));
      }
}

TEST_CASE("a server of a part of the parameters skips the tensors of that part") {
  const auto initial = gradient_of(1000);
  for (const auto& [name, options] : variants()) {
    CAPTURE(name);
    const range part{48, 64};
    const auto engine = make_optimizer(within(options, part));
    const auto whole = stepped(*make_optimizer(options), initial, as_by_step);
    auto x = initial.narrow(0, part.first, part.count).clone();
    for (std::size_t step = 0; step < as_by_step.size(); ++step)
      engine->step(x, gradient_without(as_by_step[step], step).narrow(0, part.first, part.count), 1, 0);
    CHECK(x.equal(whole.narrow(0, part.first, part.count)));
  }
}

}  // namespace missing_gradients_test
