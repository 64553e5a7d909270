// The samples that one worker trains on, step by step. Everything here is a function of the step, or a cache: nothing
// has to be saved to continue a run.
#pragma once

#include "troupe/algorithms/training/placement.hpp"
#include "troupe/algorithms/training/replica_options.hpp"
#include "troupe/data/sampling/batch.hpp"
#include "troupe/data/sampling/loader.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace troupe {

/// One thread at a time. `options` must outlive it.
class batches {
 public:
  explicit batches(const replica_options& options);

  /// Sets which batches of a shared queue the next steps draw; see advance::assigned.
  void assign(const std::vector<assignment>& assigned) { assigned_ = assigned; }

  /// Returns the number of the batch that `step` draws.
  std::uint64_t number_at(std::uint64_t step) const;

  /// Returns whether it is known which batch `step` draws.
  bool is_known(std::uint64_t step) const { return !options_.sampling.queue || assigned_at(step); }

  /// Returns the number that `step` has in the schedule of the learning rate.
  std::uint64_t scheduled(std::uint64_t step) const { return data::step_of(options_.sampling, number_at(step)); }

  /// Return the number of samples of a step, and the number of micro-batches into which they are divided.
  std::int64_t samples_at(std::uint64_t step) const;
  std::int64_t parts_at(std::uint64_t step) const;

  /// Returns micro-batch i of `step`, on the accelerator if there is one. Must be called for the
  /// micro-batches of a step in order.
  data::batch take(std::uint64_t step, std::int64_t i, device::accelerator* gpu);

  /// Makes a micro-batch and copies it to the accelerator concurrently with the accelerator's own work.
  void send_ahead(std::uint64_t step, std::int64_t i, device::accelerator& gpu);

  /// Returns the rows of up to `most` steps of one epoch, from `step` on; valid until the next call. Used for sparse
  /// samples.
  std::span<const std::int64_t> rows_of(std::uint64_t step, std::uint64_t most);

  /// Returns the total seconds spent waiting for samples.
  double waited() const { return loader_ ? loader_->waited() : making_; }

  /// Returns the total CPU seconds that other threads have used to make batches.
  double cpu_seconds_of_threads() const { return loader_ ? loader_->cpu_seconds_of_threads() : 0; }

 private:
  /// A micro-batch that is being copied to the device.
  struct upcoming {
    std::uint64_t step{0};
    std::int64_t part{0};
    device::arriving inputs, targets;
  };

  std::optional<std::uint64_t> assigned_at(std::uint64_t step) const;
  std::int64_t micro_batch_size() const;
  data::batch make(std::uint64_t step, std::int64_t i);
  data::batch load(std::uint64_t step);
  data::batch load_now(std::uint64_t step);
  data::batch make_sparse(std::span<const std::int64_t> rows);

  const replica_options& options_;
  data::sampler sampler_;               ///< Used for sparse samples.
  std::optional<data::loader> loader_;  ///< Used for dense samples.
  std::vector<assignment> assigned_;
  data::batch divided_;            ///< The batch whose micro-batches are being taken.
  std::optional<upcoming> ahead_;  ///< The micro-batch sent ahead.
  double making_{0};               ///< Seconds spent making sparse batches.
};

}  // namespace troupe
