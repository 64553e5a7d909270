// Batches prepared in advance: threads of the process read, decode and augment, and each loader keeps a bounded window
// of batches ahead of its replica. A batch is a function of (seed, epoch, sample) alone, so that it does not depend on
// the number or timing of the threads. Dense samples only.
#pragma once

#include "troupe/data/sampling/augment.hpp"
#include "troupe/data/sampling/batch.hpp"
#include "troupe/data/sampling/sampler.hpp"
#include "troupe/data/sets/dataset.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>

namespace troupe::data {

/// Threads that prepare batches for all loaders of one process. They start with the first job. Any thread.
class loader_threads {
 public:
  /// Makes `count` threads. With 0 there are none, and loaders make their batches themselves.
  explicit loader_threads(std::size_t count);

  /// Drops jobs that have not begun and waits for the others.
  ~loader_threads();

  std::size_t count() const { return count_; }

  /// Returns the number of threads started.
  std::size_t started() const;

  /// Queues `job`, which must not throw; jobs begin in the order of these calls. Requires count() > 0.
  void post(std::function<void()> job);

 private:
  struct crew;
  std::size_t count_;
  std::unique_ptr<crew> crew_;
};

struct loader_options {
  std::shared_ptr<const dataset> samples;
  normalisation scale{};
  data::sampling sampling{};
  augmentation augment{};
  std::uint64_t seed{0};  ///< Seed of the augmentation.
  /// Threads that make batches; null if the caller of take() makes each batch.
  std::shared_ptr<loader_threads> threads{};
  /// Host memory that a device reads, which may be released before the device has read it; null for memory of the
  /// loader's own. If it is set, the caller has other work while a batch is made, so all batches are made by threads.
  spawn_memory for_device{};
  /// Number of batches of the run; take() without `next` makes none in advance beyond them.
  std::uint64_t batches{std::numeric_limits<std::uint64_t>::max()};
  std::size_t ahead{4};  ///< Maximum number of batches made in advance.
};

/// Returns whether threads are worth the hand-over, which takes more time than looking values up in a table.
bool is_worth_threads(const dataset& samples, const augmentation& augment);

/// Provides the batches that one worker trains on. One thread at a time.
class loader {
 public:
  /// Throws std::invalid_argument if an epoch would have no step.
  explicit loader(loader_options options);

  /// Drops batches that are being made.
  ~loader();

  /// Returns batch `number`, waiting for it if necessary; those that follow it are made in advance. Throws what
  /// prevented the batch from being made: data_error, naming the file.
  batch take(std::uint64_t number);

  /// Returns batch `number`. `next` lists the batches that will be taken after it, as far as known; prepared batches
  /// that precede `number` are dropped.
  batch take(std::uint64_t number, std::span<const std::uint64_t> next);

  /// Returns the total seconds that take() has waited for batches.
  double waited() const { return waited_; }

  /// Returns the total CPU seconds that threads have used to make the batches that were taken.
  double cpu_seconds_of_threads() const { return cpu_seconds_of_threads_; }

  /// Returns the number of batches made or being made that have not been taken.
  std::size_t in_window() const;

  /// Returns the number of memory blocks ever allocated for batches; tests use it to check reuse.
  std::size_t allocated() const;

 private:
  struct parts;
  std::unique_ptr<parts> parts_;
  double waited_{0}, cpu_seconds_of_threads_{0};
};

}  // namespace troupe::data
