#include "troupe/models/storage/sparse_sgd.hpp"

#include "tests/support/doctest.hpp"

#include "troupe/models/networks/gradient_hooks.hpp"
#include "troupe/models/storage/flat.hpp"
#include "troupe/models/storage/held_lock.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/sparse_csr_tensor.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>
#include <thread>

namespace sparse_sgd_test {

using namespace troupe::models;

namespace {

// Sparse rows with targets, as samples of the kernels and as batches of a network.
struct rows {
  std::int64_t columns{0};
  std::vector<std::vector<std::int32_t>> indices;
  std::vector<std::vector<float>> values;
  std::vector<float> targets;

  void add(std::vector<std::int32_t> where, std::vector<float> what, float target) {
    indices.push_back(std::move(where));
    values.push_back(std::move(what));
    targets.push_back(target);
  }

  std::vector<sparse_sample> samples() const {
    std::vector<sparse_sample> list;
    for (std::size_t i = 0; i < indices.size(); ++i) {
      list.push_back({indices[i].data(), values[i].data(), static_cast<std::int32_t>(indices[i].size()), targets[i]});
    }
    return list;
  }

  at::Tensor batch(std::size_t first, std::size_t count) const {
    std::vector<std::int32_t> ends{0}, where;
    std::vector<float> what;
    for (std::size_t i = first; i < first + count; ++i) {
      where.insert(where.end(), indices[i].begin(), indices[i].end());
      what.insert(what.end(), values[i].begin(), values[i].end());
      ends.push_back(static_cast<std::int32_t>(where.size()));
    }
    return at::sparse_csr_tensor(at::tensor(ends, at::kInt), at::tensor(where, at::kInt), at::tensor(what, at::kFloat),
                                 {static_cast<std::int64_t>(count), columns}, at::kFloat);
  }

  at::Tensor target(std::size_t first, std::size_t count) const {
    return at::tensor(at::ArrayRef<float>{targets.data() + first, count}, at::kFloat);
  }

  // Returns, for each column, the number of rows divided by the number of rows that touch it.
  std::vector<float> shares() const {
    std::vector<float> touched(static_cast<std::size_t>(columns));
    for (const auto& row : indices) {
      for (const auto column : row) ++touched[static_cast<std::size_t>(column)];
    }
    for (auto& share : touched) share = share == 0 ? 0 : static_cast<float>(indices.size()) / share;
    return touched;
  }
};

// Rows of two classes with zero, one, odd and even numbers of nonzeros.
rows two_classes() {
  constexpr std::int32_t counts[] = {5, 0, 1, 7, 8, 9, 15, 16, 17, 2, 31, 33, 3, 4, 12, 40, 74, 0, 11, 6};
  std::mt19937 draw{7};
  rows made{.columns = 100, .indices = {}, .values = {}, .targets = {}};
  for (int round = 0; round < 2; ++round) {
    for (const auto count : counts) {
      std::vector<std::int32_t> where(100);
      for (std::int32_t i = 0; i < 100; ++i) where[static_cast<std::size_t>(i)] = i;
      std::shuffle(where.begin(), where.end(), draw);
      where.resize(static_cast<std::size_t>(count));
      std::sort(where.begin(), where.end());
      std::vector<float> what;
      for (std::int32_t i = 0; i < count; ++i) what.push_back(static_cast<float>(draw() % 2001) / 1000 - 1);
      made.add(where, what, static_cast<float>(draw() % 2));
    }
  }
  return made;
}

constexpr std::int64_t users = 9, items = 13;

rows ratings() {
  std::mt19937 draw{8};
  rows made{.columns = users + items, .indices = {}, .values = {}, .targets = {}};
  for (int i = 0; i < 60; ++i) {
    const auto user = static_cast<std::int32_t>(draw() % users), item = static_cast<std::int32_t>(draw() % items);
    made.add({user, static_cast<std::int32_t>(users) + item}, {1, 1}, static_cast<float>(draw() % 9) / 2 + 1);
  }
  return made;
}

struct problem {
  const char* model;
  network_shape shape;
  rows data;
};

std::vector<problem> problems() {
  return {{"logistic", {.input = {100}, .classes = 2}, two_classes()},
          {"svm", {.input = {100}, .classes = 2}, two_classes()},
          {"matrix_completion", {.input = {users, items}, .classes = 0, .rank = 5}, ratings()}};
}

// One network with its own flat tensor of weights.
struct subject {
  explicit subject(const problem& of)
      : kind{find_network(of.model)},
        net{make_network(*kind, of.shape, 3)},
        layout{layout_of(*net)},
        x{flatten(*net, layout, pool)} {}

  double step(const std::vector<sparse_sample>& samples, const sparse_sgd_options& options) {
    return kind->step(samples, options, layout, x.mutable_data_ptr<float>());
  }

  buffer_pool pool;
  const network_kind* kind;
  std::unique_ptr<network> net;
  flat_layout layout;
  at::Tensor x;
};

// Plain SGD by autograd, as in every other wiring. Returns the sum of the losses.
double by_autograd(subject& it, const rows& data, const sparse_sgd_options& options) {
  const at::AutoGradMode on{true};
  bind_weights(*it.net, it.layout, it.x);
  const auto size = static_cast<std::size_t>(options.batch_size);
  double losses = 0;
  for (std::size_t first = 0; first < data.targets.size(); first += size) {
    const auto count = std::min(size, data.targets.size() - first);
    at::Tensor gradient = at::zeros({it.layout.parameter_end});
    bind_gradients(*it.net, it.layout, gradient);
    const auto loss = mean_loss(it.net->loss(), it.net->forward(data.batch(first, count)), data.target(first, count));
    loss.backward();
    losses += loss.item<double>() * static_cast<double>(count);
    if (options.weight_decay != 0) {
      // λ · share of a column, for each sample that touches it, over the samples of the step.
      const auto of_column = static_cast<std::int64_t>(it.layout.parameters[0].count) /
                             it.layout.parameters[0].shape[it.layout.parameters.size() == 1 ? 1 : 0];
      for (std::size_t i = first; i < first + count; ++i) {
        for (const std::int64_t column : data.indices[i]) {
          const bool second = it.layout.parameters.size() == 2 && column >= users;
          const auto begin = it.layout.parameters[second ? 1 : 0].first + (column - (second ? users : 0)) * of_column;
          const double pull = options.weight_decay * options.share[column] / static_cast<double>(count);
          gradient.narrow(0, begin, of_column).add_(it.x.narrow(0, begin, of_column), pull);
        }
      }
    }
    const at::NoGradGuard off;
    it.x.narrow(0, 0, it.layout.parameter_end).sub_(gradient, options.lr);
  }
  return losses;
}

}  // namespace

TEST_CASE("sparse models are what PyTorch makes of their seed") {
  const auto net = make_network(*find_network("logistic"), {.input = {10}, .classes = 2}, 1);
  CHECK(net->parameters().size() == 1);
  CHECK(net->parameters()[0].first == "weight");
  CHECK(net->parameters()[0].second.sizes() == at::IntArrayRef{1, 10});
  // torch.manual_seed(1); torch.nn.Linear(10, 1, bias=False).weight.flatten()[:2]
  CHECK(net->parameters()[0].second[0][0].item<float>() == 0.162940532f);
  CHECK(net->parameters()[0].second[0][1].item<float>() == -0.139576048f);

  const network_shape shape{.input = {3000, 2000}, .classes = 0, .rank = 16};
  const auto factors = make_network(*find_network("matrix_completion"), shape, 1);
  CHECK(factors->parameters()[0].first == "users.weight");
  CHECK(factors->parameters()[0].second.sizes() == at::IntArrayRef{3000, 16});
  CHECK(factors->parameters()[1].first == "items.weight");
  CHECK(factors->parameters()[1].second.sizes() == at::IntArrayRef{2000, 16});
  CHECK(factors->parameters()[1].second.std().item<double>() == doctest::Approx(0.25).epsilon(0.02));
  CHECK(factors->loss() == loss_function::mse);
}

TEST_CASE("linear models score a sparse row by w·x") {
  const problem of = problems()[1];
  const subject it{of};
  const at::Tensor batch = of.data.batch(0, 20), weight = it.net->parameters()[0].second;
  const at::Tensor scores = it.net->forward(batch);
  CHECK(scores.sizes() == at::IntArrayRef{20});
  CHECK(at::allclose(scores, batch.to_dense().matmul(weight[0]), 1e-5, 1e-6));
  CHECK(scores[1].item<float>() == 0);  // a row without nonzeros
  // d/dw Σ score = Σ x
  scores.sum().backward();
  CHECK(at::allclose(weight.grad(), batch.to_dense().sum(0, true), 1e-5, 1e-6));
  CHECK(it.net->forward(of.data.batch(1, 1)).sizes() == at::IntArrayRef{1});
}

TEST_CASE("matrix completion scores a rating by its factors' dot product") {
  const problem of = problems()[2];
  const subject it{of};
  const at::Tensor user = it.net->parameters()[0].second, item = it.net->parameters()[1].second;
  const at::Tensor scores = it.net->forward(of.data.batch(0, 60));
  CHECK(scores.sizes() == at::IntArrayRef{60});
  const auto& first = of.data.indices[0];
  CHECK(scores[0].item<float>() == doctest::Approx(user[first[0]].dot(item[first[1] - users]).item<float>()));
  scores[0].backward();
  CHECK(at::allclose(user.grad()[first[0]], item[first[1] - users]));
  CHECK(at::allclose(item.grad()[first[1] - users], user[first[0]]));
  CHECK(user.grad().count_nonzero().item<std::int64_t>() == 5);
  CHECK_THROWS_WITH_AS(
      it.net->forward(two_classes().batch(0, 1)),
      "matrix_completion: 1 rows have 5 nonzeros; expected two per rating, one for the user and one for the item",
      std::invalid_argument);
}

TEST_CASE("sparse models refuse shapes that are not theirs") {
  const auto make = [](const char* name, const network_shape& shape) {
    return make_network(*find_network(name), shape, 1);
  };
  CHECK_THROWS_WITH_AS(make("svm", {}),
                       "svm requires sparse samples in 2 classes, not images of 1 x 28 x 28 in 10 classes",
                       std::invalid_argument);
  CHECK_THROWS_AS(make("logistic", {.input = {10}, .classes = 3}), std::invalid_argument);
  CHECK_THROWS_AS(make("logistic", {.input = {0}, .classes = 2}), std::invalid_argument);
  CHECK_THROWS_AS(make("matrix_completion", {.input = {10}, .classes = 0}), std::invalid_argument);
  CHECK_THROWS_AS(make("matrix_completion", {.input = {10, 4}, .classes = 2}), std::invalid_argument);
  CHECK_THROWS_AS(make("matrix_completion", {.input = {10, 4}, .classes = 0, .rank = 0}), std::invalid_argument);
}

TEST_CASE("the order of gradients is found for sparse models too") {
  for (const auto& of : problems()) {
    subject it{of};
    CAPTURE(of.model);
    auto order = gradient_order(*it.net, of.shape, it.net->loss(), sample_kind::sparse);
    std::sort(order.begin(), order.end());
    CHECK(order.size() == it.layout.parameters.size());
    for (std::size_t i = 0; i < order.size(); ++i) CHECK(order[i] == i);
  }
}

TEST_CASE("sparse steps are those of autograd and plain SGD") {
  for (const auto& of : problems()) {
    const auto shares = of.data.shares();
    for (const std::int64_t batch_size : {1, 7, 1000}) {
      for (const double weight_decay : {0.0, 0.01}) {
        for (const bool atomic : {false, true}) {
          CAPTURE(of.model);
          CAPTURE(batch_size);
          CAPTURE(weight_decay);
          CAPTURE(atomic);
          const sparse_sgd_options options{.lr = 0.1,
                                           .batch_size = batch_size,
                                           .weight_decay = weight_decay,
                                           .share = weight_decay == 0 ? nullptr : shares.data(),
                                           .atomic = atomic};
          subject expected{of}, found{of}, again{of};
          const double loss = found.step(of.data.samples(), options);
          CHECK(loss == doctest::Approx(by_autograd(expected, of.data, options)).epsilon(1e-5));
          CHECK(at::allclose(found.x, expected.x, 1e-4, 1e-5));
          CHECK_FALSE(at::allclose(found.x, subject{of}.x, 1e-4, 1e-5));
          CHECK(again.step(of.data.samples(), options) == loss);
          CHECK(at::equal(again.x, found.x));
        }
      }
    }
  }
}

TEST_CASE("a logistic loss is exact far from the boundary") {
  subject it{{"logistic", {.input = {1}, .classes = 2}, {}}};
  const std::int32_t column = 0;
  for (const float value : {-300.0f, -30.0f, 30.0f, 300.0f}) {
    it.x.fill_(1);
    const double loss = it.step({{&column, &value, 1, 1}}, {.lr = 0});
    CHECK(loss == doctest::Approx(std::max(-value, 0.0f) + std::log1p(std::exp(-std::abs(value)))));
    CHECK(it.x[0].item<float>() == 1);
  }
  // Many at once: log 2 each at w = 0, more than the number of powers of two in a double.
  it.x.zero_();
  const float one = 1;
  const std::vector<sparse_sample> many(5000, {&column, &one, 1, 0});
  for (const std::int64_t batch_size : {1, 5000})
    CHECK(it.step(many, {.lr = 0, .batch_size = batch_size}) == doctest::Approx(5000 * std::log(2.0)).epsilon(1e-8));
}

TEST_CASE("the sum of the losses does not depend on how the steps are divided into calls") {
  for (const auto& of : problems()) {
    for (const std::int64_t batch_size : {1, 7}) {
      CAPTURE(of.model);
      CAPTURE(batch_size);
      const auto all = of.data.samples();
      subject expected{of};
      const double whole = expected.step(all, {.lr = 0.1, .batch_size = batch_size, .loss_sum = 0.3});
      for (const std::size_t steps : {1, 2, 3}) {
        CAPTURE(steps);
        subject found{of};
        double sum = 0.3;
        const auto rows_at_once = steps * static_cast<std::size_t>(batch_size);
        for (std::size_t first = 0; first < all.size(); first += rows_at_once) {
          const auto end = std::min(first + rows_at_once, all.size());
          sum = found.step(
              {all.begin() + static_cast<std::ptrdiff_t>(first), all.begin() + static_cast<std::ptrdiff_t>(end)},
              {.lr = 0.1, .batch_size = batch_size, .loss_sum = sum});
        }
        CHECK(sum == whole);
        CHECK(at::equal(found.x, expected.x));
      }
    }
  }
}

TEST_CASE("a loss that is not a number is told") {
  for (const auto& of : problems()) {
    subject it{of};
    it.x.fill_(std::numeric_limits<float>::quiet_NaN());
    CAPTURE(of.model);
    CHECK(std::isnan(it.step(of.data.samples(), {})));
  }
}

TEST_CASE("no samples make no steps") {
  for (const auto& of : problems()) {
    subject it{of};
    CHECK(it.step({}, {}) == 0);
    CHECK(at::equal(it.x, subject{of}.x));
  }
}

namespace {

// Steps of an svm that never converges: each adds ½ · 2⁻¹⁰ to every coordinate of its row, exactly.
struct counting {
  static constexpr std::int64_t columns = 24;
  static constexpr std::size_t samples = 20000;
  static constexpr float change = 0x1p-11f;

  counting() {
    it.x.fill_(-4096);
    for (std::int32_t i = 0; i < columns; ++i) where.push_back(i);
    values.assign(columns, 0.5f);
  }

  double run(const sparse_sgd_options& options, int threads) {
    const std::vector<sparse_sample> list(samples, {where.data(), values.data(), columns, 1});
    std::vector<std::thread> all;
    for (int i = 0; i < threads; ++i) all.emplace_back([&] { it.step(list, options); });
    for (auto& each : all) each.join();
    return it.x.narrow(0, 0, columns).sub(-4096).sum().item<double>() / change;
  }

  subject it{{"svm", {.input = {columns}, .classes = 2}, {}}};
  std::vector<std::int32_t> where;
  std::vector<float> values;
};

}  // namespace

TEST_CASE("one thread loses no addition") {
  CHECK(counting{}.run({.lr = 0x1p-10}, 1) == counting::columns * counting::samples);
}

TEST_CASE("indivisible additions of four threads all count") {
  CHECK(counting{}.run({.lr = 0x1p-10, .atomic = true}, 4) == 4 * counting::columns * counting::samples);
}

TEST_CASE("additions of four threads under a lock all count") {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  troupe::models::process_lock lock{mutex};
  CHECK(counting{}.run({.lr = 0x1p-10, .lock = &lock}, 4) == 4 * counting::columns * counting::samples);
  CHECK(pthread_mutex_trylock(&mutex) == 0);  // no thread holds it any more
  pthread_mutex_unlock(&mutex);
}

TEST_CASE("a lock whose holder died is an error to all who want it") {
  pthread_mutexattr_t robust;
  pthread_mutexattr_init(&robust);
  pthread_mutexattr_setrobust(&robust, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_t mutex;
  pthread_mutex_init(&mutex, &robust);
  troupe::models::process_lock lock{mutex};
  std::thread{[&] { pthread_mutex_lock(&mutex); }}.join();
  for (const auto& of : problems()) {
    subject it{of};
    CHECK_THROWS_AS(it.step(of.data.samples(), {.lock = &lock}), std::runtime_error);
    CHECK(at::equal(it.x, subject{of}.x));
  }
  pthread_mutex_destroy(&mutex);
  pthread_mutexattr_destroy(&robust);
}

}  // namespace sparse_sgd_test
