// Sums as Troupe promises them: per element, the left fold in rank order of weight times value, then one division, in
// our own loops without contraction. Cutting a tensor into shards, chunks or buckets, and the order of arrival, may
// change the time but never the bits.
#pragma once

#include "troupe/algorithms/messages/part.hpp"
#include "troupe/models/storage/buffer_pool.hpp"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace troupe::rules {

/// One summand: [m] values and their weight.
struct weighted {
  at::Tensor values;  ///< [m], float32.
  double weight{1};   ///< Weight.
};

/// Returns ((w₀x₀ + w₁x₁) + w₂x₂ + …) / Σw, [m], fresh from `pool`. A single summand is returned as it is.
at::Tensor mean_in_order(const std::vector<weighted>& summands, models::buffer_pool& pool);

/// Returns (w₀x₀ + w₁x₁) + w₂x₂ + …, the fold of a mean without its division, [m], fresh from `pool`. A single summand
/// of weight 1 is returned as it is.
at::Tensor mix_in_order(const std::vector<weighted>& summands, models::buffer_pool& pool);

/// Returns so_far + w·x, or w·x if so_far is empty: one step of the same fold, [m], fresh from `pool`.
at::Tensor fold_next(const std::optional<at::Tensor>& so_far, const weighted& next, models::buffer_pool& pool);

/// Returns (so_far + w·x) / total_weight: the last step and the division, [m], fresh from `pool`.
at::Tensor fold_last(const at::Tensor& so_far, const weighted& last, double total_weight, models::buffer_pool& pool);

/// Cuts `total` elements into at most `pieces` ranges of nearly equal size, at multiples of `multiple`. No range is
/// empty, so a small tensor gives fewer.
std::vector<range> even_ranges(std::int64_t total, std::int64_t pieces, std::int64_t multiple);

/// Cuts `whole`, which begins at a multiple of `multiple`, into as few ranges as possible of nearly equal size, at such
/// multiples, with at most `most` elements each (`multiple` if `most` is less). Returns `whole` uncut if `most` is 0.
std::vector<range> ranges_of_at_most(const range& whole, std::int64_t most, std::int64_t multiple);

/// Throws exchange_error (mismatch) unless `piece` is the range of `cut` given by its key.
void check_fits(const part& piece, const std::vector<range>& cut);

/// Collects one tensor's contributions from all ranks, each once, in any order of arrival.
class rank_fold {
 public:
  /// Expects one contribution from each of `world_size` ranks.
  explicit rank_fold(std::uint32_t world_size) : summands_(world_size), came_(world_size) {}

  /// Stores the contribution of `rank`. Throws exchange_error: stale (arrived before), mismatch (shape).
  void add(rank_id rank, const at::Tensor& values, std::int64_t sample_count);

  /// Returns whether all ranks have contributed.
  bool complete() const { return arrived_ == came_.size(); }

  /// Returns the ranks that have not contributed.
  std::vector<rank_id> missing() const;

  /// Returns the mean over all samples and releases the contributions. Call once, when complete() is true.
  at::Tensor take_mean(models::buffer_pool& pool);

  /// Returns the contributions by rank, weighted by their samples, for a merge other than the mean, and releases them.
  /// Call once, when complete() is true.
  std::vector<weighted> take_summands();

  /// Returns the contributions by rank, for results that are not a mean, and releases them. Call once, when complete()
  /// is true.
  std::vector<at::Tensor> take_values();

  /// Returns the number of samples of all contributions so far.
  std::int64_t sample_count() const { return sample_count_; }

 private:
  std::vector<weighted> summands_;  ///< Contributions by rank; empty after the mean is taken.
  std::vector<bool> came_;          ///< Whether each rank has contributed.
  std::size_t arrived_{0};
  std::int64_t elements_{0};  ///< Number of elements of the first contribution.
  std::int64_t sample_count_{0};
};

/// Returns `values`, the result of a complete fold, as the part that `owner` answers with; `last` is a part of the fold
/// that provides the remaining fields.
part result_of(const rank_fold& fold, const part& last, rank_id owner, at::Tensor values);

/// Returns the mean of a complete fold as the part that `owner` answers with; `last` is a part of the fold that
/// provides the remaining fields.
part take_result(rank_fold& fold, const part& last, rank_id owner, models::buffer_pool& pool);

/// The folds of all steps that have not ended, each split into pieces: the state of a member that collects
/// contributions, some of which may already belong to the next step.
class rank_folds {
 public:
  /// Expects, in each step, one contribution from each rank to each of the pieces.
  explicit rank_folds(std::uint32_t world_size, std::size_t pieces = 1) : blank_(pieces, rank_fold{world_size}) {}

  /// Stores a contribution and returns the fold of its step and piece (key::part, below `pieces`). Throws as
  /// rank_fold::add does.
  rank_fold& add(const part& contribution);

  /// Returns the ranks that have not contributed to the first incomplete piece of `step`.
  std::vector<rank_id> missing(std::uint64_t step) const;

  /// Forgets the folds of all steps before `step`.
  void forget_before(std::uint64_t step);

 private:
  std::vector<rank_fold> blank_;  ///< Folds of a step without contributions.
  std::map<std::uint64_t, std::vector<rank_fold>> steps_;
};

}  // namespace troupe::rules
