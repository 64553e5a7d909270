// Sums as Troupe promises them: per element the left fold in rank order of weight times value, then one division, in
// our own loops without contraction. How a tensor is cut into shards, chunks or buckets, and what arrived first, may
// change the time, never the bits.
#pragma once

#include "troupe/actors/messages.hpp"
#include "troupe/models/buffer_pool.hpp"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace troupe::rules {

/// One summand: [m] values and their weight.
struct weighted {
  at::Tensor values;
  double weight{1};
};

/// Returns ((w₀x₀ + w₁x₁) + w₂x₂ + …) / Σw, [m], fresh from `pool`. A single summand is returned as it is.
at::Tensor mean_in_order(const std::vector<weighted>& summands, models::buffer_pool& pool);

/// Returns (w₀x₀ + w₁x₁) + w₂x₂ + …, the fold of a mean without its division, [m], fresh from `pool`. A single summand
/// of weight 1 is returned as it is.
at::Tensor mix_in_order(const std::vector<weighted>& summands, models::buffer_pool& pool);

/// Returns so_far + w·x, or w·x where there is nothing so far: one link of the same fold, [m], fresh from `pool`.
at::Tensor fold_next(const std::optional<at::Tensor>& so_far, const weighted& next, models::buffer_pool& pool);

/// Returns (so_far + w·x) / total_weight: the last link and the division, [m], fresh from `pool`.
at::Tensor fold_last(const at::Tensor& so_far, const weighted& last, double total_weight, models::buffer_pool& pool);

/// Cuts `total` elements into at most `pieces` ranges of nearly equal size on 64-byte boundaries; none is empty, so
/// a small tensor gives fewer.
std::vector<range> even_ranges(std::int64_t total, std::int64_t pieces);

/// Cuts `whole`, which begins on a 64-byte boundary, into as few ranges of at most `most` elements on such boundaries
/// as will do, of nearly equal size; one of 64 bytes where `most` is less. most = 0: does not cut.
std::vector<range> ranges_of_at_most(const range& whole, std::int64_t most);

/// Throws exchange_error (mismatch) unless `piece` is the range of `cut` that its key names.
void check_fits(const part& piece, const std::vector<range>& cut);

/// Gathers one tensor's contributions of all ranks, each once, in any order of arrival.
class rank_fold {
 public:
  explicit rank_fold(std::uint32_t world_size) : summands_(world_size), came_(world_size) {}

  /// Keeps the contribution of `rank`. Throws exchange_error: stale (came already), mismatch (shape).
  void add(rank_id rank, const at::Tensor& values, std::int64_t sample_count);

  bool complete() const { return arrived_ == came_.size(); }

  /// Ranks that have not come.
  std::vector<rank_id> missing() const;

  /// Returns the mean over all samples and lets go of the contributions: once, when complete() holds.
  at::Tensor take_mean(models::buffer_pool& pool);

  /// Returns the contributions by rank, weighted by their samples, for another merge than a mean, and lets go of them:
  /// once, when complete() holds.
  std::vector<weighted> take_summands();

  /// Returns the contributions by rank, for what is not a mean, and lets go of them: once, when complete() holds.
  std::vector<at::Tensor> take_values();

  /// Samples of all contributions so far.
  std::int64_t sample_count() const { return sample_count_; }

 private:
  std::vector<weighted> summands_;  ///< By rank; empty once the mean is taken.
  std::vector<bool> came_;          ///< By rank.
  std::size_t arrived_{0};
  std::int64_t elements_{0};  ///< Of the first contribution.
  std::int64_t sample_count_{0};
};

/// Returns `values`, made of a complete fold, as what `owner` answers with; `last` is a part of the fold, for the rest
/// of it.
part result_of(const rank_fold& fold, const part& last, rank_id owner, at::Tensor values);

/// Returns the mean of a complete fold as what `owner` answers with; `last` is a part of the fold, for the rest of it.
part take_result(rank_fold& fold, const part& last, rank_id owner, models::buffer_pool& pool);

/// The folds of all steps that are not over, each of so many pieces: what a member keeps that gathers contributions,
/// of which a peer's may be for the step after this one.
class rank_folds {
 public:
  explicit rank_folds(std::uint32_t world_size, std::size_t pieces = 1) : blank_(pieces, rank_fold{world_size}) {}

  /// Keeps a contribution, and returns the fold of its step and piece (key::part, below `pieces`). Throws as
  /// rank_fold::add does.
  rank_fold& add(const part& contribution);

  /// Ranks that have not come to the first piece of `step` that is not complete.
  std::vector<rank_id> missing(std::uint64_t step) const;

  /// Forgets the folds of all steps below `step`.
  void forget_before(std::uint64_t step);

 private:
  std::vector<rank_fold> blank_;  ///< A step to which nothing has come.
  std::map<std::uint64_t, std::vector<rank_fold>> steps_;
};

}  // namespace troupe::rules
