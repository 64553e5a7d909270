// The steps of a replica: clipping, penalties and scaled learning rates, and steps in requests of any length.
#include "tests/support/doctest.hpp"
#include "tests/support/stage_for_one.hpp"

#include "troupe/algorithms/training/replica.hpp"
#include "troupe/algorithms/training/shared_memory.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>

#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

namespace replica_steps_test {

using namespace troupe;
using namespace troupe::testing;

TEST_CASE("a gradient longer than clip_norm is scaled to it before the step, out of place") {
  stage_for_one plain{{.optimizer = {.lr = 1}}}, clipped{{.optimizer = {.lr = 1, .clip_norm = 0.01}}};
  const auto gradient = plain.run(plain.request({verb::gradient})).gradient->piece.values;
  const auto norm = gradient.norm().item<double>();
  REQUIRE(norm > 0.01);
  const auto moved = clipped.run(clipped.request({verb::gradient, verb::apply})).now.values - clipped.initial;
  CHECK(moved.allclose(gradient * (-0.01 / norm), 1e-4, 1e-7));
  stage_for_one loose{{.optimizer = {.lr = 1, .clip_norm = 2 * norm}}};
  CHECK(loose.run(loose.request({verb::gradient, verb::apply}))
            .now.values.equal(plain.run(plain.request({verb::gradient, verb::apply})).now.values));
}

TEST_CASE(
    "an L2 penalty adds its share of the weights to the gradient, once for all micro-batches, and to each bucket") {
  for (const std::int64_t parts : {1, 4}) {
    CAPTURE(parts);
    stage_for_one plain{{.micro_batches = parts}},
        penalised{{.micro_batches = parts, .optimizer = {.lr = 0.1, .l2_penalty = 0.5}}};
    const auto end = plain.options.layout.parameter_end;
    const auto x = plain.initial.narrow(0, 0, end);
    const auto expected = plain.run(plain.request({verb::gradient})).gradient->piece.values + x * 0.5;
    auto asked = penalised.request({verb::gradient});
    asked.leaving = penalised.in_two_buckets(2);
    std::vector<at::Tensor> left;
    const auto found = penalised.run(asked, [&](part bucket, double) { left.push_back(bucket.piece.values.clone()); })
                           .gradient->piece.values;
    CHECK(found.allclose(expected, 1e-5, 1e-6));
    CHECK_FALSE(expected.equal(expected - x * 0.5));
    REQUIRE(left.size() == 2);
    CHECK(at::cat({left[1], left[0]}).equal(found));
  }
}

TEST_CASE("for one worker of plain SGD an L2 penalty is weight decay") {
  stage_for_one penalised{{.optimizer = {.lr = 0.1, .l2_penalty = 0.5}}},
      decayed{{.optimizer = {.lr = 0.1, .weight_decay = 0.5}}};
  auto asked = penalised.request({verb::gradient, verb::apply});
  asked.times = 3;
  const auto found = penalised.run(asked).now.values;
  asked.from = {{}, decayed.initial};
  CHECK(found.allclose(decayed.run(asked).now.values, 1e-5, 1e-6));
  CHECK_FALSE(found.allclose(decayed.initial, 1e-3, 1e-3));
}

TEST_CASE("an L2 penalty acts at the weights before they are mixed, weight decay at those after") {
  stage_for_one plain{{.optimizer = {.lr = 0.5}}};
  const auto end = plain.options.layout.parameter_end;
  const auto x = plain.initial.narrow(0, 0, end), mixed = at::full({end}, 0.25F);
  const auto g = plain.run(plain.request({verb::gradient})).gradient->piece.values;
  for (const auto& [penalty, decay] : {std::pair{0.5, 0.0}, {0.0, 0.25}, {0.5, 0.25}}) {
    CAPTURE(penalty);
    CAPTURE(decay);
    stage_for_one here{{.optimizer = {.lr = 0.5, .weight_decay = decay, .l2_penalty = penalty}}};
    replica one{here.options};
    const replica::bucket_sink nobody = [](part, double) {};
    const auto computed = one.run(here.request({verb::gradient}), here.cancelled, nobody);
    const advance after{.verbs = {verb::apply},
                        .from = computed.now,
                        .gradient = computed.gradient,
                        .with = {{.what = slot::parameters, .pieces = {{0, mixed}}}}};
    const auto found = one.run(after, here.cancelled, nobody).now.values.narrow(0, 0, end);
    CHECK(found.allclose(mixed - 0.5 * (g + penalty * x + decay * mixed), 1e-5, 1e-6));
  }
}

TEST_CASE("what an exchange scales the learning rate by holds until the step, whatever is taken in before it") {
  stage_for_one here{{.optimizer = {.lr = 0.5}}};
  const auto end = here.options.layout.parameter_end;
  const outcome answer{.what = slot::gradient, .pieces = {{0, at::full({end}, 2.0F)}}, .lr_scale = 0.25};
  replica one{here.options};
  const replica::bucket_sink nobody = [](part, double) {};
  const auto computed = one.run(here.request({verb::gradient}), here.cancelled, nobody);
  // An evaluation comes between the answer and the step, so this request only takes the answer in.
  const auto settled =
      one.run({.from = computed.now, .gradient = computed.gradient, .with = {answer}}, here.cancelled, nobody);
  CHECK(settled.now.values.equal(here.initial));
  const auto stepped =
      one.run({.verbs = {verb::apply}, .from = settled.now, .gradient = settled.gradient}, here.cancelled, nobody);
  const auto x = here.initial.narrow(0, 0, end);
  CHECK(stepped.now.values.narrow(0, 0, end).allclose(x - 0.25F));  // 0.5 · 0.25 · 2
  // The scale applied to that step alone.
  const auto next =
      one.run({.verbs = {verb::apply}, .from = stepped.now, .gradient = settled.gradient}, here.cancelled, nobody);
  CHECK(next.now.values.narrow(0, 0, end).allclose(x - 1.25F));
}

namespace {

/// Makes steps of `one` from `from` in requests of these lengths, each of which continues the sum of the losses.
advanced in_requests(replica& one, snapshot from, const std::vector<std::uint32_t>& lengths) {
  const std::atomic<bool> cancelled{false};
  advanced done{.now = std::move(from), .gradient = {}};
  for (const auto times : lengths)
    done =
        one.run({.verbs = {verb::gradient, verb::apply}, .times = times, .from = done.now, .loss_sum = done.loss_sum},
                cancelled, [](part, double) {});
  return done;
}

/// A replica of logistic regression on sparse rows, and its initial weights.
std::pair<replica_options, at::Tensor> sparse_stage() {
  replica_options options;
  options.model = models::find_network("logistic");
  const auto sets = data::find_dataset("sparse")->load({});
  options.shape = {.input = sets.sample_shape, .classes = 2};
  const auto network = models::make_network(*options.model, options.shape, 1);
  options.loss = network->loss();
  options.layout = models::layout_of(*network);
  options.samples = sets.train;
  options.sampling = {.samples = 400, .batch_size = 4, .workers = 1, .seed = 1};
  options.optimizer = {.lr = 0.5};
  auto initial = models::flatten(*network, options.layout, options.pool);
  return {std::move(options), std::move(initial)};
}

}  // namespace

TEST_CASE("neither the weights nor the sum of the losses depend on how steps are divided into requests") {
  const auto check = [](const replica_options& options, const at::Tensor& initial) {
    replica whole{options}, divided{options};
    const auto expected = in_requests(whole, {{}, initial}, {20}),
               found = in_requests(divided, {{}, initial}, {1, 7, 2, 10});
    CHECK(found.loss_sum == expected.loss_sum);
    CHECK(found.now.values.equal(expected.now.values));
    CHECK(found.now.origin.step == 20);
    CHECK(expected.loss_sum > 0);
  };
  SUBCASE("dense steps") {
    const stage_for_one here{{.micro_batches = 2, .optimizer = {.lr = 0.1, .momentum = 0.9}}};
    check(here.options, here.initial);
  }
  SUBCASE("sparse steps") {
    for (const std::int64_t batch_size : {1, 4, 37}) {
      auto [options, initial] = sparse_stage();
      options.sampling.batch_size = batch_size;
      options.sampling.drop_last = false;
      check(options, initial);
      for (const auto how : {memory_writes::plain, memory_writes::atomic, memory_writes::locked}) {
        for (const std::int64_t local_steps : {1, 3}) {
          options.local_steps = local_steps;
          const auto run = [&options = options, &initial = initial, how](const std::vector<std::uint32_t>& lengths) {
            options.memory = shared_memory::make(initial, options.layout.parameter_end, how);
            replica one{options};
            return in_requests(one, {{}, initial}, lengths);
          };
          const auto expected = run({20}), found = run({1, 7, 2, 10});
          CHECK(found.loss_sum == expected.loss_sum);
          CHECK(found.now.values.equal(expected.now.values));
        }
      }
    }
  }
}

TEST_CASE("sparse steps follow the schedule, however many are asked for at once") {
  auto [options, initial] = sparse_stage();
  options.optimizer.schedule = {.warmup_steps = 5,
                                .warmup_start = 0.1,
                                .how = learning_rate::decay::step,
                                .decay_at = {20, 30},
                                .decay_factor = 0.1,
                                .steps = 60};
  REQUIRE(makes_sparse_steps(*options.model, options.optimizer));
  const std::atomic<bool> cancelled{false};
  const replica::bucket_sink nobody = [](part, double) {};
  const advance all{.verbs = {verb::gradient, verb::apply}, .times = 60, .from = {{}, initial}};
  std::int64_t seen = 240;
  SUBCASE("in full batches") {}
  SUBCASE("with a smaller one at the end of each epoch") {
    options.sampling.samples = 42;  // 10 batches of 4, one of 2
    options.sampling.drop_last = false;
    seen = 5 * 42 + 5 * 4;
  }
  const auto at_once = replica{options}.run(all, cancelled, nobody);
  CHECK(at_once.now.origin.step == 60);
  CHECK(at_once.sample_count == seen);
  CHECK(at_once.classified == 0);  // these steps do not evaluate classes

  replica one_by_one{options};
  snapshot now{{}, initial};
  for (int step = 0; step < 60; ++step)
    now = one_by_one.run({.verbs = {verb::gradient, verb::apply}, .from = now}, cancelled, nobody).now;
  CHECK(now.values.equal(at_once.now.values));

  auto penalised = options;
  penalised.optimizer.l2_penalty = 1e-3;
  CHECK_FALSE(makes_sparse_steps(*options.model, penalised.optimizer));
  penalised.optimizer = options.optimizer;
  penalised.optimizer.undecayed = {{0, 1}};
  CHECK_FALSE(makes_sparse_steps(*options.model, penalised.optimizer));

  options.optimizer.clip_norm = 1e6;  // never reached; the sparse step does not support it
  const auto dense = replica{options}.run(all, cancelled, nobody);
  CHECK(dense.sample_count == seen);
  CHECK(dense.classified == seen);
  CHECK(dense.now.values.allclose(at_once.now.values, 1e-4, 1e-6));
  CHECK_FALSE(dense.now.values.equal(initial));
}

}  // namespace replica_steps_test
