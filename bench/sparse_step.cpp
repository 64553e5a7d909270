// How many samples a second do steps of logistic regression on sparse rows take, and does a second thread on the same
// parameters help?
//
//   sparse_step THREADS ROWS COLUMNS NONZEROS SKEW VARIANT EPOCHS
//
// Calls the kernel directly, without a run. Columns are drawn as perm[⌊u^SKEW · COLUMNS⌋], u uniform: with SKEW = 1,
// all columns are equally likely; with SKEW = 3, a few are in nearly every row. VARIANT: plain, atomic or locked. Each
// epoch is a new shuffle, in chunks that the threads take in turn (CHUNK in the environment: number of samples in a
// chunk). It prints samples/s and the mean loss before each step. HUGE_PAGES in the environment puts the rows on huge
// pages. Threads on cores without a common cache spend their time passing the cache lines of x back and forth, so the
// benefit of a second thread depends on the machine.
#include "troupe/models/storage/flat.hpp"
#include "troupe/models/storage/held_lock.hpp"
#include "troupe/models/storage/sparse_sgd.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <mutex>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace troupe;

struct question {
  int threads{1};
  std::int64_t rows{200000}, columns{47236}, nonzeros{74};
  double skew{1};
  std::string variant{"plain"};
  int epochs{5};
};

// The layout of data::sparse_rows: for each row, its columns, then its values.
struct drawn_rows {
  explicit drawn_rows(const question& asked)
      : count{asked.nonzeros}, bytes{8 * static_cast<std::size_t>(asked.rows * count)} {
    cells =
        static_cast<std::int32_t*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (cells == MAP_FAILED) std::abort();
    if (std::getenv("HUGE_PAGES") != nullptr) madvise(cells, bytes, MADV_HUGEPAGE);
    std::mt19937_64 draw{1};
    std::normal_distribution<float> normal;
    std::uniform_real_distribution<double> uniform;
    std::vector<std::int32_t> place(static_cast<std::size_t>(asked.columns));
    std::iota(place.begin(), place.end(), 0);
    std::shuffle(place.begin(), place.end(), draw);
    std::vector<float> truth(place.size());
    for (auto& weight : truth) weight = normal(draw);
    std::vector<std::int32_t> row;
    for (std::int64_t i = 0; i < asked.rows; ++i) {
      row.clear();
      while (static_cast<std::int64_t>(row.size()) < count) {
        const auto rank =
            static_cast<std::size_t>(std::pow(uniform(draw), asked.skew) * static_cast<double>(asked.columns));
        if (std::find(row.begin(), row.end(), place[rank]) == row.end()) row.push_back(place[rank]);
      }
      std::sort(row.begin(), row.end());
      std::int32_t* columns = cells + 2 * count * i;
      auto* values = reinterpret_cast<float*>(columns + count);
      std::copy(row.begin(), row.end(), columns);
      float score = 0;
      for (std::int64_t k = 0; k < count; ++k) {
        values[k] = (1 + 0.2f * normal(draw)) / std::sqrt(static_cast<float>(count));
        score += values[k] * truth[static_cast<std::size_t>(columns[k])];
      }
      samples.push_back({columns, values, static_cast<std::int32_t>(count), score > 0 ? 1.0f : 0.0f});
    }
  }
  ~drawn_rows() { munmap(cells, bytes); }
  drawn_rows(const drawn_rows&) = delete;
  drawn_rows& operator=(const drawn_rows&) = delete;

  std::int64_t count;
  std::size_t bytes;
  std::int32_t* cells;
  std::vector<models::sparse_sample> samples;
};

}  // namespace

int main(int count, char** words) {
  if (count != 8) {
    std::cerr << "usage: sparse_step THREADS ROWS COLUMNS NONZEROS SKEW VARIANT EPOCHS\n";
    return 2;
  }
  const question asked{.threads = std::atoi(words[1]),
                       .rows = std::atoll(words[2]),
                       .columns = std::atoll(words[3]),
                       .nonzeros = std::atoll(words[4]),
                       .skew = std::atof(words[5]),
                       .variant = words[6],
                       .epochs = std::atoi(words[7])};
  const drawn_rows data{asked};
  models::flat_layout layout;
  layout.parameters.push_back({"weight", {1, asked.columns}, 0, asked.columns});
  auto* x =
      static_cast<float*>(std::aligned_alloc(4096, (static_cast<std::size_t>(asked.columns) * 4 + 4095) / 4096 * 4096));
  std::fill_n(x, asked.columns, 0.0f);
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  models::process_lock lock{mutex};
  models::sparse_sgd_options options{.lr = 0.5, .atomic = asked.variant == "atomic"};
  if (asked.variant == "locked") options.lock = &lock;
  const char* given = std::getenv("CHUNK");
  const std::size_t chunk = given != nullptr ? std::strtoull(given, nullptr, 10) : 1000;

  std::vector<models::sparse_sample> order = data.samples;
  std::mt19937 draw{2};
  for (int epoch = 0; epoch < asked.epochs; ++epoch) {
    std::shuffle(order.begin(), order.end(), draw);
    std::atomic<std::size_t> next{0};
    std::mutex adding;
    double loss = 0;
    const auto work = [&] {
      double own = 0;
      for (std::size_t first; (first = next.fetch_add(chunk)) < order.size();) {
        own += models::logistic_sgd({order.data() + first, std::min(chunk, order.size() - first)}, options, layout, x);
      }
      const std::lock_guard guard{adding};
      loss += own;
    };
    const auto begin = std::chrono::steady_clock::now();
    std::vector<std::thread> others;
    for (int i = 1; i < asked.threads; ++i) others.emplace_back(work);
    work();
    for (auto& thread : others) thread.join();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    std::cout << static_cast<double>(asked.rows) / seconds.count() << " samples/s  loss "
              << loss / static_cast<double>(asked.rows) << std::endl;
  }
  std::free(x);
  return 0;
}
