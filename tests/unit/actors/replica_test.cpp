// The local work of a worker: how it changes x, what it sends before it is done, and that it writes no memory but its
// own.
#include "troupe/actors/training/replica.hpp"

#include "tests/support/doctest.hpp"

#include "troupe/actors/training/shared_memory.hpp"
#include "troupe/data/loader.hpp"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>

#include <atomic>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace {

using namespace troupe;

struct setting_of_one {
  std::string model{"lenet"};
  std::int64_t micro_batches{1};
  optimizer_options optimizer{.lr = 0.1};
};

/// A replica on the built-in digits, batch 8, and what it begins with.
struct stage_for_one {
  replica_options options;
  at::Tensor initial;
  std::atomic<bool> cancelled{false};

  explicit stage_for_one(const setting_of_one& given = {}) {
    const auto& kind = *models::find_network(given.model);
    const auto& digits = *data::find_dataset("digits");
    options.model = &kind;
    options.shape = {.input = digits.sample_shape, .classes = digits.classes};
    const auto network = models::make_network(kind, options.shape, 1);
    options.loss = network->loss();
    options.layout = models::layout_of(*network);
    const auto sets = digits.load({});
    options.samples = sets.train;
    options.scale = digits.published;
    options.sampling = {.samples = sets.train->size(), .batch_size = 8, .workers = 1, .shuffle = false, .seed = 1};
    options.optimizer = given.optimizer;
    options.micro_batches = given.micro_batches;
    initial = models::flatten(*network, options.layout, options.pool);
  }

  advance request(std::vector<verb> verbs) const { return {.verbs = std::move(verbs), .from = {{}, initial}}; }

  advanced run(
      const advance& asked, const replica::bucket_sink& leave = [](part) {}) {
    return replica{options}.run(asked, cancelled, leave);
  }

  /// All parameters but the last, in two buckets from the back: the last layer's, and those before it.
  bucket_destination in_two_buckets(std::size_t last_layer) const {
    const auto first = options.layout.parameters[last_layer].first;
    return {.place = 3,
            .buckets = std::make_shared<const std::vector<range>>(
                std::vector<range>{{first, options.layout.parameter_end - first}, {0, first}})};
  }
};

}  // namespace

TEST_CASE("a bucket leaves while backward still works at the layers before it") {
  stage_for_one here;
  auto asked = here.request({verb::gradient});
  asked.leaving = here.in_two_buckets(4);  // fc1 and what follows; conv1 and conv2
  struct seen {
    part bucket;
    at::Tensor values;
    bool rest_is_zero;
  };
  std::vector<seen> left;
  const auto done = here.run(asked, [&](part bucket) {
    // The gradient is one piece of memory: what lies before the bucket is what backward has not come to yet.
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
  const auto found = parts.run(asked, [&](part bucket) { left.push_back(bucket.piece.values.clone()); });
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
  // In parts of 8, of 2 and of 3 samples; the last part of 4 has 4, 2 and 1.
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
  // By hand: the same batches through the same weights, which change with each step.
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
    const replica::bucket_sink nobody = [](part) {};
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
    const replica::bucket_sink nobody = [](part) {};
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
  const replica::bucket_sink nobody = [](part) {};
  const auto sent = one.run(here.request({}), here.cancelled, nobody);
  REQUIRE(sent.now.values.eq(0).all().item<bool>());
  here.options.memory->values()[1] = 5;  // another worker
  const auto end = here.options.layout.parameter_end;
  const advance with_answer{.from = sent.now,
                            .with = {{.what = slot::parameters, .pieces = {{0, at::full({end}, 2.0f)}}}}};
  const auto done = one.run(with_answer, here.cancelled, nobody);
  CHECK(done.now.values[0].item<float>() == 2);
  CHECK(done.now.values[1].item<float>() == 7);
}

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
    const auto found =
        penalised.run(asked, [&](part bucket) { left.push_back(bucket.piece.values.clone()); }).gradient->piece.values;
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
    const replica::bucket_sink nobody = [](part) {};
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
  const replica::bucket_sink nobody = [](part) {};
  const auto computed = one.run(here.request({verb::gradient}), here.cancelled, nobody);
  // An evaluation comes between the answer and the step: all there is to do is to take it in.
  const auto settled =
      one.run({.from = computed.now, .gradient = computed.gradient, .with = {answer}}, here.cancelled, nobody);
  CHECK(settled.now.values.equal(here.initial));
  const auto stepped =
      one.run({.verbs = {verb::apply}, .from = settled.now, .gradient = settled.gradient}, here.cancelled, nobody);
  const auto x = here.initial.narrow(0, 0, end);
  CHECK(stepped.now.values.narrow(0, 0, end).allclose(x - 0.25F));  // 0.5 · 0.25 · 2
  // It was of that step alone.
  const auto next =
      one.run({.verbs = {verb::apply}, .from = stepped.now, .gradient = settled.gradient}, here.cancelled, nobody);
  CHECK(next.now.values.narrow(0, 0, end).allclose(x - 1.25F));
}

TEST_CASE("a replica that continues from a state takes the same steps, with augmentation and dropout") {
  const replica::bucket_sink nobody = [](part) {};
  for (const auto* name : {"sgd", "adamw"}) {
    for (const auto* model : {"convnet", "resnet20"}) {
      CAPTURE(name);
      CAPTURE(model);
      stage_for_one here{{.model = model, .optimizer = {.name = name, .lr = 0.01, .momentum = 0.9}}};
      here.options.augment = {.crop_padding = 1, .flip = 0.5};
      here.options.sampling.samples = 24;  // three steps an epoch
      here.options.sampling.shuffle = true;
      const auto run = [&](replica& one, const snapshot& from, std::uint32_t times) {
        advance asked{.verbs = {verb::gradient, verb::apply}, .times = times, .from = from};
        return one.run(asked, here.cancelled, nobody);
      };
      replica uninterrupted{here.options};
      CHECK(uninterrupted.state().empty());
      const auto then = run(uninterrupted, {{}, here.initial}, 4);
      const auto saved = uninterrupted.state();
      const auto expected = run(uninterrupted, then.now, 4);
      replica resumed{here.options}, forgetful{here.options};
      resumed.restore(saved);
      const auto found = run(resumed, then.now, 4);
      CHECK(found.now.values.equal(expected.now.values));
      CHECK(found.loss_sum == expected.loss_sum);
      CHECK_FALSE(run(forgetful, then.now, 4).now.values.equal(expected.now.values));
    }
  }
}

TEST_CASE("the state of a replica holds a factor of the learning rate that waits for its step") {
  stage_for_one here{{.optimizer = {.lr = 0.5}}};
  const auto end = here.options.layout.parameter_end;
  const outcome answer{.what = slot::gradient, .pieces = {{0, at::full({end}, 2.0F)}}, .lr_scale = 0.25};
  const replica::bucket_sink nobody = [](part) {};
  replica one{here.options}, other{here.options};
  const auto computed = one.run(here.request({verb::gradient}), here.cancelled, nobody);
  const auto settled =
      one.run({.from = computed.now, .gradient = computed.gradient, .with = {answer}}, here.cancelled, nobody);
  CHECK(one.state().number("lr_scale") == 0.25);
  other.restore(one.state());
  const auto stepped =
      other.run({.verbs = {verb::apply}, .from = settled.now, .gradient = settled.gradient}, here.cancelled, nobody);
  CHECK(stepped.now.values.narrow(0, 0, end).allclose(here.initial.narrow(0, 0, end) - 0.25F));
  CHECK(other.state().empty());
}

TEST_CASE("a state that does not fit a replica is refused") {
  stage_for_one here{{.optimizer = {.lr = 0.1, .momentum = 0.9}}};
  const auto end = here.options.layout.parameter_end;
  const auto refuses = [&](const char* name, const at::Tensor& values) {
    CAPTURE(name);
    state_dict saved;
    saved.put(name, values);
    CHECK_THROWS_AS(replica{here.options}.restore(saved), state_error);
  };
  refuses("optimizer/momentum_buffer", at::zeros({end + 1}));
  refuses("optimizer/exp_avg", at::zeros({end}));
  refuses("lr_scale", at::zeros({1}));
  refuses("payload_bytes", at::zeros({1}));
  refuses("momentum_buffer", at::zeros({end}));
  state_dict saved;
  saved.put("optimizer/momentum_buffer", at::zeros({end}));
  saved.put_count("payload_bytes", 12);
  replica one{here.options};
  one.restore(saved);
  CHECK(one.state().count("payload_bytes") == 12);
  one.restore({});
  CHECK(one.state().empty());
}

TEST_CASE("under bfloat16 the gradient is nearly that of float32, and float32 itself") {
  // Twenty layers and batch norms of four samples magnify what is rounded.
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
  const replica::bucket_sink nobody = [](part) {};
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
  CHECK(done.data_wait > 0);  // it made the batch itself
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
  // Of the third epoch, at the weights of the first: other images.
  auto later = here.request({verb::gradient});
  later.from.origin.step = 4;
  CHECK_FALSE(
      here.run(later).gradient->piece.values.equal(here.run(here.request({verb::gradient})).gradient->piece.values));
}

namespace {

/// Steps of `one` from `from` in requests of these lengths, each of which continues the sum of the losses.
advanced in_requests(replica& one, snapshot from, const std::vector<std::uint32_t>& lengths) {
  const std::atomic<bool> cancelled{false};
  advanced done{.now = std::move(from), .gradient = {}};
  for (const auto times : lengths)
    done =
        one.run({.verbs = {verb::gradient, verb::apply}, .times = times, .from = done.now, .loss_sum = done.loss_sum},
                cancelled, [](part) {});
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
          const auto run = [&](const std::vector<std::uint32_t>& lengths) {
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
  const replica::bucket_sink nobody = [](part) {};
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
  CHECK(at_once.classified == 0);  // these steps look at no class

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

  options.optimizer.clip_norm = 1e6;  // never reached; the sparse step does not know it
  const auto dense = replica{options}.run(all, cancelled, nobody);
  CHECK(dense.sample_count == seen);
  CHECK(dense.classified == seen);
  CHECK(dense.now.values.allclose(at_once.now.values, 1e-4, 1e-6));
  CHECK_FALSE(dense.now.values.equal(initial));
}
