// Which samples a worker trains on at a step: a function of (seed, epoch, rank), so that any worker, node or test can
// work it out. One epoch has one permutation of the whole set.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace troupe::data {

enum class split : std::uint8_t {
  strided,     ///< Worker w takes perm[w::n]: n batches of b are exactly the n·b batch of one worker.
  contiguous,  ///< Each worker a fixed block in the set's order, shuffled inside.
  all,         ///< Every worker the whole set, each in its own order.
  given,       ///< Each worker the samples that sampling::shards has for it, shuffled among themselves.
};

/// For each worker its samples; all have floor(N / n).
using sample_shards = std::vector<std::vector<std::int64_t>>;

struct sampling {
  std::int64_t samples{0};     ///< N of the whole set.
  std::int64_t batch_size{1};  ///< Of one worker.
  std::int64_t rank{0};
  std::int64_t workers{1};
  split how{split::strided};
  bool shuffle{true};
  std::uint64_t seed{0};
  bool drop_last{true};  ///< An epoch leaves out its last batch where that is not full.
  bool pad{false};       ///< A strided epoch repeats its first samples until its length is a multiple of n.
  std::shared_ptr<const sample_shards> shards{};  ///< Of split::given.
};

/// Returns how many samples a worker has in an epoch, equal for all workers: floor(N / n), padded ceil(N / n), or N for
/// `all`.
std::int64_t share_of(const sampling& options);

/// Returns the steps of an epoch, equal for all workers: floor(share / batch), or without drop_last ceil(share /
/// batch).
std::int64_t steps_per_epoch(const sampling& options);

/// Returns how many samples the last batch of an epoch has: batch_size, or without drop_last perhaps fewer.
std::int64_t last_batch_size(const sampling& options);

/// Returns how many samples a worker's batch at `step` has.
std::int64_t batch_size_at(const sampling& options, std::uint64_t step);

/// Walks one worker's samples. Keeps the permutation of the epoch it was last asked for; one thread at a time.
class sampler {
 public:
  /// Throws std::invalid_argument where an epoch would have no step, or where a split other than strided is padded.
  explicit sampler(const sampling& options);

  /// Returns the sample indices of this worker's batch at `step`, counted from 0 over all epochs.
  std::vector<std::int64_t> batch_at(std::uint64_t step);

  /// Returns those of up to `most` batches from `step` on, one behind the other and all of the same epoch; valid until
  /// the next call.
  std::span<const std::int64_t> batches_at(std::uint64_t step, std::uint64_t most);

  std::int64_t steps_per_epoch() const { return steps_per_epoch_; }

 private:
  void enter(std::uint64_t epoch);

  sampling options_;
  std::int64_t share_, steps_per_epoch_;
  std::uint64_t epoch_{~std::uint64_t{0}};
  std::vector<std::int64_t> order_;  ///< This worker's samples of epoch_.
};

}  // namespace troupe::data
