// The local work of a worker: how it computes gradients, which parts it sends before it is done, and that it writes
// only to its own memory.
#include "troupe/algorithms/training/replica.hpp"

#include "tests/support/doctest.hpp"
#include "tests/support/stage_for_one.hpp"

#include "troupe/algorithms/training/shared_memory.hpp"
#include "troupe/data/sampling/loader.hpp"

#include <ATen/autocast_mode.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace replica_test {

using namespace troupe;
using namespace troupe::testing;

TEST_CASE("a bucket leaves while backward still works at the layers before it") {
  stage_for_one here;
  auto asked = here.request({verb::gradient});
  asked.leaving = here.in_two_buckets(4);  // fc1 and later layers; conv1 and conv2
  struct seen {
    part bucket;
    at::Tensor values;
    bool rest_is_zero;
  };
  std::vector<seen> left;
  const auto done = here.run(asked, [&](part bucket, double) {
    // The gradient is one piece of memory: backward has not yet reached the elements before the bucket.
    const auto whole = at::empty({0}).set_(bucket.piece.values.storage(), 0, {here.options.layout.parameter_end}, {1});
    const auto before = whole.narrow(0, 0, bucket.piece.first);
    left.push_back({bucket, bucket.piece.values.clone(), before.eq(0).all().item<bool>()});
  });
  REQUIRE(left.size() == 2);
  CHECK(left[0].bucket.piece.first == here.options.layout.parameters[4].first);
  CHECK(left[0].rest_is_zero);
  CHECK(left[1].bucket.piece.first == 0);
  const auto& gradient = done.gradient->piece.values;
  CHECK_FALSE(gradient.narrow(0, 0, left[0].bucket.piece.first).eq(0).all().item<bool>());
  for (const auto& one : left) {
    const auto& where = one.bucket.piece;
    CHECK(one.values.equal(gradient.narrow(0, where.first, where.values.numel())));  // complete when it left
    CHECK(one.bucket.which.place == 3);
    CHECK(one.bucket.total == here.options.layout.parameter_end);
    CHECK(one.bucket.sample_count == 8);
  }
}

TEST_CASE("buckets that leave change no bit of the gradient") {
  stage_for_one here;
  const auto whole = here.run(here.request({verb::gradient}));
  auto asked = here.request({verb::gradient});
  asked.leaving = here.in_two_buckets(2);
  CHECK(here.run(asked).gradient->piece.values.equal(whole.gradient->piece.values));
}

TEST_CASE("micro-batches add up to the gradient of the batch, and leave in buckets once") {
  stage_for_one whole, parts{{.micro_batches = 4}};
  const auto expected = whole.run(whole.request({verb::gradient}));
  auto asked = parts.request({verb::gradient});
  asked.leaving = parts.in_two_buckets(2);
  std::vector<at::Tensor> left;
  const auto found = parts.run(asked, [&](part bucket, double) { left.push_back(bucket.piece.values.clone()); });
  CHECK(found.gradient->piece.values.allclose(expected.gradient->piece.values, 1e-5, 1e-6));
  REQUIRE(left.size() == 2);
  CHECK(at::cat({left[1], left[0]}).equal(found.gradient->piece.values));
  CHECK(found.sample_count == 8);
  CHECK(found.loss_sum == doctest::Approx(expected.loss_sum).epsilon(1e-5));
}

TEST_CASE("the last batch of an epoch has what is left, and its gradient is the mean over that") {
  stage_for_one expected;
  expected.options.sampling.batch_size = 4;
  auto of_four = expected.request({verb::gradient});
  of_four.from.origin.step = 4;  // samples 16 to 19
  const auto four = expected.run(of_four);
  // Micro-batches of 8, 2 and 3 samples: the last micro-batch of the 4 samples has 4, 2 and 1.
  for (const auto& [batch, parts, step] : {std::tuple{8, 1, 2}, std::tuple{8, 4, 2}, std::tuple{6, 2, 3}}) {
    CAPTURE(batch);
    CAPTURE(parts);
    stage_for_one here;
    here.options.sampling.samples = batch == 8 ? 20 : 22;
    here.options.sampling.batch_size = batch;
    here.options.sampling.drop_last = false;
    here.options.micro_batches = parts;
    auto asked = here.request({verb::gradient});
    asked.from.origin.step = static_cast<std::uint64_t>(step);
    if (batch == 6) {  // samples 18 to 21
      expected.options.sampling = here.options.sampling;
      expected.options.sampling.shuffle = false;
      of_four.from.origin.step = static_cast<std::uint64_t>(step);
      expected.options.micro_batches = 1;
    }
    const auto wanted = batch == 6 ? expected.run(of_four) : four;
    const auto found = here.run(asked);
    CHECK(found.sample_count == 4);
    CHECK(found.gradient->sample_count == 4);
    CHECK(found.classified == 4);
    CHECK(found.correct == wanted.correct);
    CHECK(found.loss_sum == doctest::Approx(wanted.loss_sum).epsilon(1e-5));
    if (parts == 1)
      CHECK(found.gradient->piece.values.equal(wanted.gradient->piece.values));
    else
      CHECK(found.gradient->piece.values.allclose(wanted.gradient->piece.values, 1e-5, 1e-6));
  }
}

TEST_CASE("training counts how many samples its forward passes put into their class") {
  stage_for_one here, in_parts{{.micro_batches = 4}};
  auto asked = here.request({verb::gradient, verb::apply});
  asked.times = 3;
  // By hand: the same batches with the same weights, which change with each step.
  std::int64_t correct = 0;
  const auto net = models::make_network(*here.options.model, here.options.shape, 1);
  auto x = here.initial;
  for (std::int64_t step = 0; step < 3; ++step) {
    models::bind_weights(*net, here.options.layout, x);
    std::vector<std::int64_t> indices(8);
    std::iota(indices.begin(), indices.end(), 8 * step);
    const auto batch = data::make_batch(*here.options.samples, here.options.scale, indices);
    correct += net->forward(batch.inputs).argmax(1).eq(batch.targets).sum().item<std::int64_t>();
    auto one = asked;
    one.times = 1;
    one.from = {{.step = static_cast<std::uint64_t>(step)}, x};
    x = here.run(one).now.values;
  }
  const auto found = here.run(asked);
  CHECK(found.classified == 24);
  CHECK(found.correct == correct);
  CHECK(in_parts.run(in_parts.request({verb::gradient})).correct == here.run(here.request({verb::gradient})).correct);
}

TEST_CASE("what the run began with, and what it has handed out, is never written") {
  for (const auto* model : {"lenet", "resnet20"}) {
    CAPTURE(model);
    stage_for_one here{{.model = model, .optimizer = {.lr = 0.1, .momentum = 0.9}}};
    const auto before = here.initial.clone();
    replica one{here.options};
    const replica::bucket_sink nobody = [](part, double) {};
    const auto first = one.run(here.request({verb::gradient, verb::apply, verb::gradient}), here.cancelled, nobody);
    const auto x = first.now.values.clone(), g = first.gradient->piece.values.clone();
    advance next{.verbs = {verb::apply, verb::gradient}, .times = 2, .from = first.now, .gradient = first.gradient};
    const auto second = one.run(next, here.cancelled, nobody);
    CHECK(here.initial.equal(before));
    CHECK(first.now.values.equal(x));
    CHECK(first.gradient->piece.values.equal(g));
    CHECK(second.now.origin.step == 3);
  }
}

TEST_CASE("training keeps the running statistics of batch norm behind the parameters") {
  stage_for_one here{{.model = "resnet20"}};
  const auto& layout = here.options.layout;
  REQUIRE(layout.total > layout.parameter_end);
  const auto done = here.run(here.request({verb::gradient}));
  const auto parameters = layout.parameter_end, buffers = layout.total - layout.parameter_end;
  CHECK(done.now.values.narrow(0, 0, parameters).equal(here.initial.narrow(0, 0, parameters)));
  CHECK_FALSE(done.now.values.narrow(0, parameters, buffers).equal(here.initial.narrow(0, parameters, buffers)));
}

TEST_CASE("a shared memory is stepped in place, and handed out as a copy where it is asked for") {
  stage_for_one here{{.optimizer = {.lr = 0.1, .momentum = 0.9}}};
  auto asked = here.request({verb::gradient, verb::apply});
  asked.times = 3;
  const auto expected = here.run(asked);
  const auto begun = asked.from;
  for (const auto how : {memory_writes::plain, memory_writes::atomic, memory_writes::locked}) {
    here.options.memory = shared_memory::make(here.initial, here.options.layout.parameter_end, how);
    asked.from = begun;
    asked.host_parameters = true;
    replica one{here.options};
    const replica::bucket_sink nobody = [](part, double) {};
    const auto copied = one.run(asked, here.cancelled, nobody);
    CHECK(copied.host_parameters);
    CHECK(copied.now.values.equal(expected.now.values));
    CHECK(copied.now.origin.step == 3);
    CHECK(here.options.memory->updates() == 3);
    asked.from = copied.now;
    asked.host_parameters = false;
    const auto live = one.run(asked, here.cancelled, nobody);
    CHECK_FALSE(live.host_parameters);
    CHECK(live.now.values.const_data_ptr() == here.options.memory->values().const_data_ptr());
    CHECK(copied.now.values.equal(expected.now.values));  // frozen
  }
}

TEST_CASE("an answer to a shared memory leaves what others have written since it was sent") {
  stage_for_one here;
  here.options.memory =
      shared_memory::make(at::zeros_like(here.initial), here.options.layout.parameter_end, memory_writes::plain);
  replica one{here.options};
  const replica::bucket_sink nobody = [](part, double) {};
  const auto sent = one.run(here.request({}), here.cancelled, nobody);
  REQUIRE(sent.now.values.eq(0).all().item<bool>());
  here.options.memory->values()[1] = 5;  // a step of another worker
  const auto end = here.options.layout.parameter_end;
  const advance with_answer{.from = sent.now,
                            .with = {{.what = slot::parameters, .pieces = {{0, at::full({end}, 2.0f)}}}}};
  const auto done = one.run(with_answer, here.cancelled, nobody);
  CHECK(done.now.values[0].item<float>() == 2);
  CHECK(done.now.values[1].item<float>() == 7);
}

TEST_CASE("under bfloat16 the gradient is nearly that of float32, and float32 itself") {
  // Twenty layers and batch norms over four samples magnify rounding errors.
  for (const auto& [model, apart] : {std::pair<std::string, double>{"lenet", 0.1}, {"resnet20", 0.5}}) {
    CAPTURE(model);
    stage_for_one exact{{.model = model}}, rough{{.model = model, .micro_batches = 2}};
    exact.options.micro_batches = 2;
    rough.options.bfloat16 = true;
    const auto expected = exact.run(exact.request({verb::gradient})),
               found = rough.run(rough.request({verb::gradient}));
    const auto &g = expected.gradient->piece.values, &h = found.gradient->piece.values;
    CHECK((h.scalar_type() == at::kFloat));
    CHECK_FALSE(h.equal(g));
    CHECK((h - g).norm().item<double>() < apart * g.norm().item<double>());
    CHECK(found.loss_sum == doctest::Approx(expected.loss_sum).epsilon(0.02));
    CHECK_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
  }
}

TEST_CASE("under bfloat16 a step sees the weights of the step before") {
  stage_for_one one{{.optimizer = {.lr = 0.05}}};
  one.options.bfloat16 = true;
  auto asked = one.request({verb::gradient, verb::apply});
  asked.times = 2;
  const auto both = one.run(asked);
  asked.times = 1;
  replica again{one.options};
  const replica::bucket_sink nobody = [](part, double) {};
  asked.from = again.run(asked, one.cancelled, nobody).now;
  CHECK(again.run(asked, one.cancelled, nobody).now.values.equal(both.now.values));
}

TEST_CASE("a loss that is not finite names step and worker, unless it is to be taken as it is") {
  stage_for_one here{{.optimizer = {.lr = 1e30}}};
  here.options.rank = rank_id{2};
  auto asked = here.request({verb::gradient, verb::apply});
  asked.times = 5;
  CHECK_THROWS_WITH_AS(here.run(asked),
                       "the loss of worker 2 in step 2 is not finite (nan): training diverged; reduce "
                       "optimizer.lr, or set run.stop_on_non_finite = false to continue",
                       std::runtime_error);
  here.options.stop_on_non_finite = false;
  const auto done = here.run(asked);
  CHECK(done.now.origin.step == 5);
  CHECK_FALSE(std::isfinite(done.loss_sum));
}

TEST_CASE("time is measured where batches are loaded by threads of the process, and there alone") {
  stage_for_one here;
  const auto inline_made = here.run(here.request({verb::gradient, verb::apply}));
  CHECK(inline_made.busy == 0);
  CHECK(inline_made.data_wait == 0);
  here.options.loading = std::make_shared<data::loader_threads>(1);
  const auto done = here.run(here.request({verb::gradient, verb::apply}));
  CHECK(done.busy > 0);
  CHECK(done.data_wait > 0);  // the caller makes the batch itself
  CHECK(done.data_wait < done.busy);
  CHECK(done.now.values.equal(inline_made.now.values));
}

TEST_CASE("augmented batches are of their step's epoch, with threads and without, in parts and whole") {
  stage_for_one here, in_parts{{.micro_batches = 4}};
  for (auto* each : {&here, &in_parts}) {
    each->options.augment = {.crop_padding = 1, .flip = 0.5};
    each->options.sampling.samples = 16;  // two steps an epoch
  }
  auto asked = here.request({verb::gradient, verb::apply});
  asked.times = 6;
  const auto expected = here.run(asked);
  here.options.loading = std::make_shared<data::loader_threads>(2);
  const auto threaded = here.run(asked);
  CHECK(threaded.now.values.equal(expected.now.values));
  CHECK(threaded.loss_sum == expected.loss_sum);
  in_parts.options.loading = here.options.loading;
  asked.from = {{}, in_parts.initial};
  CHECK(in_parts.run(asked).loss_sum == doctest::Approx(expected.loss_sum).epsilon(1e-4));
  // A gradient of the third epoch at the weights of the first: the images differ.
  auto later = here.request({verb::gradient});
  later.from.origin.step = 4;
  CHECK_FALSE(
      here.run(later).gradient->piece.values.equal(here.run(here.request({verb::gradient})).gradient->piece.values));
}

}  // namespace replica_test
