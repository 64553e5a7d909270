#include "troupe/data/sampling/loader.hpp"

#include "troupe/data/formats/cpu_time.hpp"

#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <new>
#include <pthread.h>
#include <sched.h>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace troupe::data {

namespace {

/// Maximum memory for batches waiting for their replicas; two batches are always allowed.
constexpr std::int64_t window_bytes = 256 << 20;

/// Memory for batches, as in models::buffer_pool: memory is reused once the last reference to a tensor is released.
class batch_memory {
 public:
  at::Tensor take(at::IntArrayRef sizes, at::ScalarType type) const {
    auto bytes = c10::elementSize(type);
    for (const auto size : sizes) bytes *= static_cast<std::size_t>(size);
    void* const block = shelf_->take(bytes);
    return at::from_blob(
        block, sizes, [home = shelf_, block, bytes](void*) { home->put_back(block, bytes); }, at::dtype(type));
  }

  std::size_t allocated() const {
    const std::lock_guard lock{shelf_->mutex};
    return shelf_->allocated;
  }

 private:
  struct shelf {
    ~shelf() {
      for (auto& [bytes, blocks] : free)
        for (void* const block : blocks) std::free(block);
    }

    void* take(std::size_t bytes) {
      constexpr std::size_t line = 64;
      {
        const std::lock_guard lock{mutex};
        if (auto& blocks = free[bytes]; !blocks.empty()) {
          void* const block = blocks.back();
          blocks.pop_back();
          return block;
        }
        ++allocated;
      }
      void* const block = std::aligned_alloc(line, std::max(line, (bytes + line - 1) / line * line));
      if (!block) throw std::bad_alloc{};
      return block;
    }

    void put_back(void* block, std::size_t bytes) {
      const std::lock_guard lock{mutex};
      free[bytes].push_back(block);
    }

    std::mutex mutex;
    std::map<std::size_t, std::vector<void*>> free;  ///< At most as many blocks as there ever were batches at once.
    std::size_t allocated{0};
  };

  std::shared_ptr<shelf> shelf_ = std::make_shared<shelf>();
};

/// Everything that a thread needs to make a batch.
struct recipe {
  std::shared_ptr<const dataset> samples;
  normalisation scale;
  augmentation augment;
  std::uint64_t seed;
  spawn_memory memory;

  batch make(const std::vector<std::int64_t>& indices, std::uint64_t epoch) const {
    const auto result = empty_batch(*samples, static_cast<std::int64_t>(indices.size()), memory);
    fill_batch(*samples, scale, indices, {&augment, seed, epoch}, result);
    return result;
  }
};

/// A batch of the window. It is made once: by a thread, or by the caller that takes it if no thread has begun it.
///
///   queued -> begun -> made | failed
///   queued -> forgotten
class order {
 public:
  order(std::shared_ptr<const recipe> how, std::vector<std::int64_t> indices, std::uint64_t epoch)
      : how_(std::move(how)), indices_(std::move(indices)), epoch_(epoch) {}

  /// Makes the batch unless it was begun or is no longer needed.
  void make() {
    {
      const std::lock_guard lock{mutex_};
      if (std::exchange(begun_, true)) return;
    }
    batch result;
    std::exception_ptr problem;
    const auto used_before = cpu_time_of_thread();
    try {
      result = how_->make(indices_, epoch_);
    } catch (...) {
      problem = std::current_exception();
    }
    {
      const std::lock_guard lock{mutex_};
      made_ = std::move(result);
      problem_ = std::move(problem);
      maker_ = std::this_thread::get_id();
      used_ = cpu_time_of_thread() - used_before;
      ended_ = true;
    }
    changed_.notify_all();
  }

  batch take() {
    make();
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [this] { return ended_; });
    if (problem_) std::rethrow_exception(std::exchange(problem_, nullptr));
    return std::exchange(made_, {});
  }

  void forget() {
    const std::lock_guard lock{mutex_};
    begun_ = true;
  }

  /// Returns the CPU time that another thread has used to make the batch. Call it after take().
  std::chrono::nanoseconds cpu_time_of_another_thread() const {
    return maker_ == std::this_thread::get_id() ? std::chrono::nanoseconds{0} : used_;
  }

 private:
  std::shared_ptr<const recipe> how_;
  std::vector<std::int64_t> indices_;
  std::uint64_t epoch_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool begun_{false}, ended_{false};
  std::thread::id maker_;
  std::chrono::nanoseconds used_{0};
  batch made_;
  std::exception_ptr problem_;
};

}  // namespace

struct loader_threads::crew {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> jobs;
  std::vector<std::thread> threads;
  bool closed{false};

  void run() {
    // Work ahead is not urgent: a loader thread that wakes up must not preempt a compute thread that has its batch.
    const sched_param none{};
    pthread_setschedparam(pthread_self(), SCHED_BATCH, &none);
    for (;;) {
      std::function<void()> job;
      {
        std::unique_lock lock{mutex};
        changed.wait(lock, [this] { return closed || !jobs.empty(); });
        if (closed) return;
        job = std::move(jobs.front());
        jobs.pop_front();
      }
      job();
    }
  }
};

loader_threads::loader_threads(std::size_t count) : count_(count), crew_(std::make_unique<crew>()) {}

loader_threads::~loader_threads() {
  std::deque<std::function<void()>> forgotten;
  {
    const std::lock_guard lock{crew_->mutex};
    crew_->closed = true;
    forgotten.swap(crew_->jobs);
  }
  crew_->changed.notify_all();
  for (auto& thread : crew_->threads) thread.join();
}

std::size_t loader_threads::started() const {
  const std::lock_guard lock{crew_->mutex};
  return crew_->threads.size();
}

void loader_threads::post(std::function<void()> job) {
  {
    const std::lock_guard lock{crew_->mutex};
    if (count_ == 0) throw std::logic_error("there are no loader threads");
    crew_->jobs.push_back(std::move(job));
    while (crew_->threads.size() < count_) {
      const auto name = "loader " + std::to_string(crew_->threads.size());
      crew_->threads.emplace_back([crew = crew_.get()] { crew->run(); });
      pthread_setname_np(crew_->threads.back().native_handle(), name.c_str());
    }
  }
  crew_->changed.notify_one();
}

struct loader::parts {
  struct numbered_order {
    std::uint64_t number{0};
    std::shared_ptr<order> what;
  };

  loader_options options;
  data::sampler sampler;
  batch_memory own;
  std::shared_ptr<const recipe> how;
  std::deque<numbered_order> window;  ///< Batches made in advance, in the order in which they will be taken.

  explicit parts(loader_options given)
      : options(std::move(given)),
        sampler(options.sampling),
        how(std::make_shared<recipe>(recipe{
            options.samples, options.scale, options.augment, options.seed,
            options.for_device ? options.for_device : [memory = own](at::IntArrayRef sizes, at::ScalarType type) {
              return memory.take(sizes, type);
            }})) {
    const auto bytes = std::max<std::int64_t>(1, batch_bytes(*options.samples, options.sampling.batch_size));
    const auto fit = std::max<std::int64_t>(2, window_bytes / bytes);
    options.ahead = std::min(options.ahead, static_cast<std::size_t>(fit));
    const bool worth_a_thread = is_worth_threads(*options.samples, options.augment) || options.for_device;
    if (!worth_a_thread || !options.threads || options.threads->count() == 0) options.ahead = 0;
  }

  numbered_order order_of(std::uint64_t number) {
    const auto epoch = epoch_of(options.sampling, number);
    return {number, std::make_shared<order>(how, sampler.batch_at(number), epoch)};
  }

  /// Drops the batches before `number` from the window, or all batches if `number` is not in the window.
  void forget_before(std::uint64_t number) {
    while (!window.empty() && window.front().number != number) {
      window.front().what->forget();
      window.pop_front();
    }
  }

  /// Queues the first `ahead` batches of `next`; the window must be a prefix of them.
  void fill(std::span<const std::uint64_t> next) {
    for (std::size_t i = window.size(); i < std::min(next.size(), options.ahead); ++i) {
      window.push_back(order_of(next[i]));
      options.threads->post([pending = window.back().what] { pending->make(); });
    }
  }
};

bool is_worth_threads(const dataset& samples, const augmentation& augment) {
  return samples.files || augment.any();
}

loader::loader(loader_options options) : parts_(std::make_unique<parts>(std::move(options))) {}

loader::~loader() {
  for (const auto& entry : parts_->window) entry.what->forget();
}

batch loader::take(std::uint64_t number) {
  const auto& options = parts_->options;
  std::vector<std::uint64_t> next;
  while (next.size() < options.ahead && number + next.size() + 1 < options.batches)
    next.push_back(number + next.size() + 1);
  return take(number, next);
}

batch loader::take(std::uint64_t number, std::span<const std::uint64_t> next) {
  auto& my = *parts_;
  const auto begin = std::chrono::steady_clock::now();
  my.forget_before(number);
  if (my.window.empty()) my.window.push_back(my.order_of(number));  // made here, while threads make the next ones
  const auto first = std::move(my.window.front().what);
  my.window.pop_front();
  my.fill(next);
  auto result = first->take();
  waited_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  cpu_seconds_of_threads_ += std::chrono::duration<double>(first->cpu_time_of_another_thread()).count();
  return result;
}

std::size_t loader::in_window() const {
  return parts_->window.size();
}

std::size_t loader::allocated() const {
  return parts_->own.allocated();
}

}  // namespace troupe::data
