// Which samples a worker trains on at a step: a function of (seed, epoch, rank), so that any worker, node or test can
// compute it. One epoch has one permutation of the whole set.
//
// If batches differ in size, a step takes the next samples of a strided epoch, as many as all its batches need, and
// deals them to the workers in turn, leaving out those whose batch is full. With equal sizes, that is the same.
//
// A worker's batches are numbered by its steps. If all n workers draw from one queue instead, batch i of the queue is
// the one that worker i mod n would draw at step floor(i / n), so that an epoch has the same batches either way. With
// split::all, the queue contains the workers' orders of the whole set, one after the other.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace troupe::data {

enum class split : std::uint8_t {
  strided,     ///< Worker w takes perm[w::n]: n batches of b are exactly the n·b batch of one worker.
  contiguous,  ///< Each worker has a fixed block in the set's order, shuffled within the block.
  all,         ///< Every worker has the whole set, each in its own order.
  given,       ///< Each worker has its samples in sampling::shards, shuffled among themselves.
};

/// Samples of each worker; each has floor(N / n).
using sample_shards = std::vector<std::vector<std::int64_t>>;

struct sampling {
  std::int64_t samples{0};     ///< Number of samples of the whole set, N.
  std::int64_t batch_size{1};  ///< Batch size of this worker.
  std::int64_t rank{0};
  std::int64_t workers{1};
  split how{split::strided};
  bool shuffle{true};
  std::uint64_t seed{0};
  bool drop_last{true};  ///< Drop the last batch of an epoch if it is not full.
  bool pad{false};       ///< Repeat the first samples of a strided epoch until its length is a multiple of n.
  std::shared_ptr<const sample_shards> shards{};  ///< Shards for split::given.
  std::vector<std::int64_t> sizes{};  ///< Batch size of each worker of a strided epoch; empty if all are equal.
  bool queue{false};                  ///< Whether all workers draw from one queue; then `rank` is not used.
};

/// The worker and the step to which a batch belongs by its number.
struct batch_owner {
  std::int64_t rank{0};   ///< Worker that draws it if each worker has batches of its own.
  std::uint64_t step{0};  ///< Step at which that worker draws it.
};

/// Returns the owner of batch `number`.
batch_owner owner_of(const sampling& options, std::uint64_t number);

/// Returns the options for the worker `rank`.
sampling of_worker(sampling options, std::int64_t rank);

/// Returns the number of samples of all workers in a step of full batches.
std::int64_t samples_per_step(const sampling& options);

/// Returns the number of samples per worker and epoch: floor(N / n), padded ceil(N / n), or N for `all`; with batches
/// of different sizes, those of the full steps.
std::int64_t share_of(const sampling& options);

/// Returns the number of steps per epoch, equal for all workers: floor(share / batch), or without drop_last ceil(share
/// / batch); with batches of different sizes, floor(N / their sum).
std::int64_t steps_per_epoch(const sampling& options);

/// Returns the number of samples in the last batch of an epoch: batch_size, or perhaps fewer without drop_last.
std::int64_t last_batch_size(const sampling& options);

/// Returns the step at which batch `number` is due: the mean number of steps, rounded down, that the workers have
/// completed before it.
std::uint64_t step_of(const sampling& options, std::uint64_t number);

/// Returns the number of samples in batch `number`.
std::int64_t batch_size_at(const sampling& options, std::uint64_t number);

/// Returns the epoch of batch `number`.
std::uint64_t epoch_of(const sampling& options, std::uint64_t number);

/// Iterates over the batches of one worker, or of the queue. Keeps the permutation of the epoch that was requested
/// last; one thread at a time.
class sampler {
 public:
  /// Throws std::invalid_argument if an epoch would have no step, or if a split other than strided is padded.
  explicit sampler(const sampling& options);

  /// Returns the sample indices of batch `number`, counted from 0 over all epochs.
  std::vector<std::int64_t> batch_at(std::uint64_t number);

  /// Returns the indices of up to `most` batches from `number` on, in order; valid until the next call. They are of the
  /// same epoch, and all but the last are full.
  std::span<const std::int64_t> batches_at(std::uint64_t number, std::uint64_t most);

  std::int64_t steps_per_epoch() const { return steps_per_epoch_; }

 private:
  std::span<const std::int64_t> from_queue(std::uint64_t number, std::uint64_t most);
  void append(batch_owner owner);
  void deal(const std::vector<std::int64_t>& whole);
  void enter(std::uint64_t epoch);

  sampling options_;
  std::int64_t share_, steps_per_epoch_;
  static constexpr std::uint64_t no_epoch = ~std::uint64_t{0};
  std::uint64_t epoch_{no_epoch};
  std::vector<std::int64_t> order_;  ///< This worker's samples in epoch_.
  /// Used only for a queue: the samplers of all workers; for `strided` and `all`, one over the whole set.
  std::vector<sampler> sources_;
  std::vector<std::int64_t> drawn_;  ///< Used only for a queue: the indices that were returned last.
};

}  // namespace troupe::data
