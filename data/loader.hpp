// Batches made before they are asked for: threads of the process read, decode and augment, each loader keeps a bounded
// window of batches ahead of its replica. What a batch holds is a function of (seed, epoch, sample) alone, so that
// neither the number of threads nor their timing can be seen in it. Dense samples only.
#pragma once

#include "troupe/data/augment.hpp"
#include "troupe/data/batch.hpp"
#include "troupe/data/dataset.hpp"
#include "troupe/data/sampler.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>

namespace troupe::data {

/// The threads of one process that make batches, for all its loaders. They start with the first job. Any thread.
class loader_threads {
 public:
  /// With `count` 0 there are none, and loaders make their batches themselves.
  explicit loader_threads(std::size_t count);

  /// Forgets the jobs not begun, and waits for the others.
  ~loader_threads();

  std::size_t count() const { return count_; }

  /// How many have been started.
  std::size_t started() const;

  /// Queues `job`, which must not throw; jobs are begun in this order. Wants a count above 0.
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
  std::uint64_t seed{0};                      ///< Of the augmentation.
  std::shared_ptr<loader_threads> threads{};  ///< None: a batch is made by who takes it.
  /// Memory that a device reads, of the host; safe to let go of before it has. None: memory of the loader's own. With
  /// it the caller has other work while a batch is made, so that all are made by threads.
  host_memory for_device{};
  std::uint64_t steps{std::numeric_limits<std::uint64_t>::max()};  ///< Of the run: none is made ahead beyond them.
  std::size_t ahead{4};                                            ///< Batches made before they are asked for, at most.
};

/// The batches of one worker, step by step. One thread at a time.
class loader {
 public:
  /// Throws std::invalid_argument where an epoch would have no step.
  explicit loader(loader_options options);

  /// Lets go of what is being made.
  ~loader();

  /// Returns the batch of `step`; waits for it. A step other than the one after the last taken throws the window away.
  /// Throws what kept the batch from being made: data_error, naming the file.
  batch take(std::uint64_t step);

  /// Seconds so far from calls of take() until their batch was there.
  double waited() const { return waited_; }

  /// Batches made or to be made that nobody has taken.
  std::size_t in_window() const;

  /// Blocks of memory that batches were ever made in: shows in tests that they are reused.
  std::size_t allocated() const;

 private:
  struct parts;
  std::unique_ptr<parts> parts_;
  double waited_{0};
};

}  // namespace troupe::data
