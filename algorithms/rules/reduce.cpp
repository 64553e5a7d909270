#include "troupe/algorithms/rules/reduce.hpp"

#include "troupe/algorithms/messages/errc.hpp"
#include "troupe/algorithms/support/assert.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace troupe::rules {

namespace {

constexpr std::int64_t block = 2048;  ///< Elements of a fold that stay in the first-level cache.

void scale(float* __restrict sum, const float* __restrict values, float weight, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) sum[i] = weight * values[i];
}

void add_scaled(float* __restrict sum, const float* __restrict values, float weight, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) sum[i] = sum[i] + weight * values[i];
}

void add_scaled_to(float* __restrict sum, const float* __restrict so_far, const float* __restrict values, float weight,
                   std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) sum[i] = so_far[i] + weight * values[i];
}

void add_scaled_and_divide(float* __restrict mean, const float* __restrict so_far, const float* __restrict values,
                           float weight, float divisor, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) mean[i] = (so_far[i] + weight * values[i]) / divisor;
}

void divide(float* sum, float divisor, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) sum[i] = sum[i] / divisor;
}

/// Returns the fold of all summands, made block by block; calls `finish(sum, length)` for each block while it is in the
/// cache.
template <class Finish>
at::Tensor fold_in_order(const std::vector<weighted>& summands, models::buffer_pool& pool, Finish finish) {
  const auto count = summands.front().values.numel();
  auto result = pool.take(count);
  auto* sum = result.data_ptr<float>();
  std::vector<const float*> values;
  for (const auto& summand : summands) {
    TROUPE_ASSERT(summand.values.numel() == count, "summands must have the same size");
    values.push_back(summand.values.const_data_ptr<float>());
  }
  for (std::int64_t first = 0; first < count; first += block) {
    const auto length = std::min(block, count - first);
    scale(sum + first, values[0] + first, static_cast<float>(summands[0].weight), length);
    for (std::size_t i = 1; i < summands.size(); ++i)
      add_scaled(sum + first, values[i] + first, static_cast<float>(summands[i].weight), length);
    finish(sum + first, length);
  }
  return result;
}

}  // namespace

at::Tensor mean_in_order(const std::vector<weighted>& summands, models::buffer_pool& pool) {
  TROUPE_ASSERT(!summands.empty(), "a mean requires at least one summand");
  if (summands.size() == 1) return summands.front().values;
  double total_weight = 0;
  for (const auto& summand : summands) total_weight += summand.weight;
  const auto divisor = static_cast<float>(total_weight);
  return fold_in_order(summands, pool, [=](float* sum, std::int64_t length) { divide(sum, divisor, length); });
}

at::Tensor mix_in_order(const std::vector<weighted>& summands, models::buffer_pool& pool) {
  TROUPE_ASSERT(!summands.empty(), "a mixture requires at least one summand");
  if (summands.size() == 1 && summands.front().weight == 1) return summands.front().values;
  return fold_in_order(summands, pool, [](float*, std::int64_t) {});
}

at::Tensor fold_next(const std::optional<at::Tensor>& so_far, const weighted& next, models::buffer_pool& pool) {
  const auto count = next.values.numel();
  auto result = pool.take(count);
  auto* sum = result.data_ptr<float>();
  const auto* values = next.values.const_data_ptr<float>();
  const auto weight = static_cast<float>(next.weight);
  TROUPE_ASSERT(!so_far || so_far->numel() == count, "summands must have the same size");
  if (so_far)
    add_scaled_to(sum, so_far->const_data_ptr<float>(), values, weight, count);
  else
    scale(sum, values, weight, count);
  return result;
}

at::Tensor fold_last(const at::Tensor& so_far, const weighted& last, double total_weight, models::buffer_pool& pool) {
  const auto count = last.values.numel();
  TROUPE_ASSERT(so_far.numel() == count, "summands must have the same size");
  auto result = pool.take(count);
  add_scaled_and_divide(result.data_ptr<float>(), so_far.const_data_ptr<float>(), last.values.const_data_ptr<float>(),
                        static_cast<float>(last.weight), static_cast<float>(total_weight), count);
  return result;
}

std::vector<range> even_ranges(std::int64_t total, std::int64_t pieces, std::int64_t multiple) {
  const auto size = ((total + pieces - 1) / pieces + multiple - 1) / multiple * multiple;
  std::vector<range> result;
  for (std::int64_t first = 0; first < total; first += size) result.push_back({first, std::min(size, total - first)});
  return result;
}

std::vector<range> ranges_of_at_most(const range& whole, std::int64_t most, std::int64_t multiple) {
  if (most == 0) return {whole};
  const auto size = std::max(multiple, most / multiple * multiple);
  auto result = even_ranges(whole.count, (whole.count + size - 1) / size, multiple);
  for (auto& piece : result) piece.first += whole.first;
  return result;
}

void check_fits(const part& piece, const std::vector<range>& cut) {
  const auto index = piece.which.part;
  if (index >= cut.size() || piece.piece.first != cut[index].first || piece.piece.values.numel() != cut[index].count)
    throw exchange_error(errc::mismatch, "a part does not fit this model");
}

void rank_fold::add(rank_id rank, const at::Tensor& values, std::int64_t sample_count) {
  const auto index = static_cast<std::size_t>(rank);
  TROUPE_ASSERT(index < came_.size(), "ranks must be less than the world size");
  if (came_[index])
    throw exchange_error(errc::stale, "rank " + std::to_string(index) + " contributed to the same step twice");
  if (arrived_ == 0) elements_ = values.numel();
  if (values.numel() != elements_)
    throw exchange_error(errc::mismatch, "rank " + std::to_string(index) + " contributed " +
                                             std::to_string(values.numel()) + " elements, but the others contributed " +
                                             std::to_string(elements_));
  summands_[index] = {values, static_cast<double>(sample_count)};
  came_[index] = true;
  sample_count_ += sample_count;
  ++arrived_;
}

std::vector<rank_id> rank_fold::missing() const {
  std::vector<rank_id> ranks;
  for (std::size_t i = 0; i < came_.size(); ++i)
    if (!came_[i]) ranks.push_back(rank_id{static_cast<std::uint32_t>(i)});
  return ranks;
}

at::Tensor rank_fold::take_mean(models::buffer_pool& pool) {
  return mean_in_order(take_summands(), pool);
}

std::vector<weighted> rank_fold::take_summands() {
  TROUPE_ASSERT(complete() && !summands_.empty(), "every rank must have contributed, and contributions are taken once");
  return std::exchange(summands_, {});
}

std::vector<at::Tensor> rank_fold::take_values() {
  std::vector<at::Tensor> values;
  for (auto& summand : take_summands()) values.push_back(std::move(summand.values));
  return values;
}

part result_of(const rank_fold& fold, const part& last, rank_id owner, at::Tensor values) {
  part result = last;
  result.origin.sender = owner;
  result.at = stage::result;
  result.piece.values = std::move(values);
  result.sample_count = fold.sample_count();
  return result;
}

part take_result(rank_fold& fold, const part& last, rank_id owner, models::buffer_pool& pool) {
  return result_of(fold, last, owner, fold.take_mean(pool));
}

rank_fold& rank_folds::add(const part& contribution) {
  auto& fold = steps_.try_emplace(contribution.origin.step, blank_).first->second.at(contribution.which.part);
  fold.add(contribution.origin.sender, contribution.piece.values, contribution.sample_count);
  return fold;
}

std::vector<rank_id> rank_folds::missing(std::uint64_t step) const {
  const auto folds = steps_.find(step);
  for (const auto& fold : folds == steps_.end() ? blank_ : folds->second)
    if (!fold.complete()) return fold.missing();
  return {};
}

void rank_folds::forget_before(std::uint64_t step) {
  steps_.erase(steps_.begin(), steps_.lower_bound(step));
}

}  // namespace troupe::rules
