// Replicas on one memory, each on a separate thread: which of their additions are lost, and which are not.
//
// The numbers are chosen so that all additions are exact and equal: a linear model that is so wrong that its loss
// always has slope −1, values of ½, and a power of two as the learning rate. The value of a coordinate therefore gives
// the number of additions that it has kept.
#include "tests/support/doctest.hpp"

#include "troupe/algorithms/training/replica.hpp"
#include "troupe/algorithms/training/shared_memory.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <latch>
#include <string>
#include <thread>
#include <vector>

namespace hogwild_test {

namespace {

using namespace troupe;

constexpr std::int64_t workers = 4, shared_columns = 16, columns = shared_columns + workers;
constexpr float beginning = -4096, change = 0x1p-11f;  // lr · ½

/// Returns rows that touch all shared columns and one further column, which belongs to the row's worker: the sampler
/// gives worker w the rows w, w + n, w + 2n, …
std::shared_ptr<const data::dataset> rows_for(std::int64_t steps_each) {
  struct cells {
    std::vector<std::int64_t> offsets{0};
    std::vector<std::int32_t> words;
  };
  const auto made = std::make_shared<cells>();
  const auto rows = workers * steps_each;
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int32_t column = 0; column < shared_columns; ++column) made->words.push_back(column);
    made->words.push_back(static_cast<std::int32_t>(shared_columns + i % workers));
    made->words.insert(made->words.end(), shared_columns + 1, std::bit_cast<std::int32_t>(0.5f));
    made->offsets.push_back(made->offsets.back() + shared_columns + 1);
  }
  auto set = std::make_shared<data::dataset>();
  set->targets = at::ones({rows}, at::kLong);
  set->classes = {"no", "yes"};
  set->rows = std::make_shared<data::sparse_rows>(rows, columns, made->offsets.data(), made->words.data(), made);
  return set;
}

struct setting {
  std::string model;
  memory_writes how{};
  std::uint32_t steps{0};  ///< Number of steps of each worker.
  bool dense{false};       ///< Whether to use backward and LibTorch's SGD instead of the model's sparse step.
};

struct result {
  std::vector<double> kept;  ///< Number of additions, by column.
  staleness_tally staleness;
  std::uint64_t updates{0};
  std::int64_t samples{0};
};

/// Returns how many additions each coordinate of x has kept.
std::vector<double> counted(const at::Tensor& x) {
  std::vector<double> all;
  for (std::int64_t i = 0; i < columns; ++i)
    all.push_back((static_cast<double>(x.const_data_ptr<float>()[i]) - beginning) / change);
  return all;
}

/// Lets all workers make their steps concurrently, and reads x repeatedly meanwhile.
result run_on_threads(const setting& given) {
  replica_options options;
  options.model = models::find_network(given.model);
  options.shape = {.input = {columns}, .classes = 2};
  const auto network = models::make_network(*options.model, options.shape, 1);
  options.loss = network->loss();
  options.layout = models::layout_of(*network);
  options.samples = rows_for(given.steps);
  options.sampling = {.samples = options.samples->size(), .batch_size = 1, .workers = workers, .shuffle = false};
  options.optimizer = {.lr = 2 * change};
  if (given.dense) options.optimizer.clip_norm = 1e6;  // never reached; the sparse step does not support it
  const auto initial = at::full({options.layout.total}, beginning);
  options.memory = shared_memory::make(initial, options.layout.parameter_end, given.how);
  const auto& memory = *options.memory;

  std::latch ready{workers + 1};
  std::atomic<bool> cancelled{false};
  std::atomic<std::int64_t> samples{0}, at_work{workers};
  std::vector<std::thread> all;
  for (std::int64_t rank = 0; rank < workers; ++rank)
    all.emplace_back([&, options, rank]() mutable {
      options.rank = rank_id{static_cast<std::uint32_t>(rank)};
      options.sampling.rank = rank;
      options.pool = {};
      replica mine{options};
      const advance asked{.verbs = {verb::gradient, verb::apply}, .times = given.steps, .from = {{}, initial}};
      ready.arrive_and_wait();
      samples += mine.run(asked, cancelled, [](part, double) {}).sample_count;
      --at_work;
    });
  ready.arrive_and_wait();
  models::buffer_pool pool;
  std::vector<double> last(columns);
  std::int64_t torn = 0, back = 0;
  while (at_work > 0) {
    const auto now = counted(memory.copy(pool));
    for (std::size_t i = 0; i < now.size(); ++i) {
      torn += now[i] != std::floor(now[i]) ? 1 : 0;
      back += now[i] < last[i] ? 1 : 0;
    }
    last = now;
  }
  for (auto& one : all) one.join();
  CHECK(torn == 0);
  if (given.how != memory_writes::plain) CHECK(back == 0);  // a late plain write undoes another one
  return {counted(memory.copy(pool)), memory.staleness(), memory.updates(), samples};
}

void check_steps(const result& found, const setting& given) {
  const std::uint64_t all = workers * given.steps;
  CHECK(found.updates == all);
  CHECK(found.samples == static_cast<std::int64_t>(all));
  CHECK(found.staleness.applied == all);
  std::uint64_t by_staleness = 0;
  for (const auto each : found.staleness.counts) by_staleness += each;
  CHECK(by_staleness == all);
}

const std::vector<setting> ways(memory_writes how) {
  return {{"svm", how, 4000}, {"logistic", how, 4000}, {"svm", how, 60, true}, {"logistic", how, 60, true}};
}

}  // namespace

TEST_CASE("replicas on threads of their own lose no addition where the memory is atomic or locked") {
  for (const auto how : {memory_writes::atomic, memory_writes::locked})
    for (const auto& given : ways(how)) {
      CAPTURE(given.model);
      CAPTURE(given.dense);
      const auto found = run_on_threads(given);
      check_steps(found, given);
      for (std::int64_t i = 0; i < columns; ++i)
        CHECK(found.kept[static_cast<std::size_t>(i)] == (i < shared_columns ? workers : 1) * given.steps);
    }
}

// The guaranteed minimum is two. A worker may read a coordinate as its own first write left it, sleep while all others
// finish, and then overwrite their additions; but a value that it reads is never older than its own last write.
TEST_CASE("replicas that write plainly lose additions of others only where they write the same coordinate") {
  for (const auto& given : ways(memory_writes::plain)) {
    CAPTURE(given.model);
    CAPTURE(given.dense);
    const auto found = run_on_threads(given);
    check_steps(found, given);
    for (std::int64_t i = 0; i < columns; ++i) {
      const auto kept = found.kept[static_cast<std::size_t>(i)];
      if (i < shared_columns) {
        CHECK(kept >= 2);
        CHECK(kept <= workers * given.steps);
      } else if (!given.dense) {
        CHECK(kept == given.steps);  // other workers write neighbouring coordinates in the same cache line
      } else {
        CHECK(kept >= 0);
        CHECK(kept <= given.steps);  // a dense step of another worker also writes it, with the old value
      }
      CHECK(kept == std::floor(kept));
    }
  }
}

}  // namespace hogwild_test
