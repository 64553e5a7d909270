#include "troupe/algorithms/training/bucket_watch.hpp"

#include "troupe/algorithms/support/assert.hpp"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <utility>

namespace troupe {

bucket_watch::bucket_watch(const models::flat_layout& layout, std::vector<range> buckets)
    : buckets_(std::move(buckets)) {
  for (const auto& entry : layout.parameters) {
    const auto holds = [&](const range& bucket) {
      return entry.first >= bucket.first && entry.first < bucket.first + bucket.count;
    };
    const auto bucket = std::find_if(buckets_.begin(), buckets_.end(), holds);
    TROUPE_ASSERT(bucket != buckets_.end(), "every parameter must be in a bucket");
    bucket_of_.push_back(static_cast<std::size_t>(bucket - buckets_.begin()));
  }
}

void bucket_watch::begin(const part& gradient, const bucket_sink& leave) {
  gradient_ = &gradient;
  leave_ = &leave;
  sent_ = 0;
  open_.assign(buckets_.size(), 0);
  for (const auto bucket : bucket_of_) open_[bucket] += 1;
}

void bucket_watch::complete(std::size_t parameter) {
  if (!leave_) return;
  const auto bucket = bucket_of_.at(parameter);
  if (--open_[bucket] > 0) return;
  sent_ += buckets_[bucket].count;
  send(bucket);
}

void bucket_watch::skip() {
  for (std::size_t bucket = 0; bucket < open_.size(); ++bucket) {
    open_[bucket] = 0;
    sent_ += buckets_[bucket].count;
    send(bucket);
  }
}

void bucket_watch::end() {
  sent_ = gradient_->piece.values.numel();
  for (std::size_t bucket = 0; bucket < open_.size(); ++bucket)
    if (open_[bucket] > 0) send(bucket);
  leave_ = nullptr;
  gradient_ = nullptr;
}

void bucket_watch::send(std::size_t bucket) {
  auto piece = *gradient_;
  const auto& where = buckets_[bucket];
  piece.which.part = static_cast<std::uint32_t>(bucket);
  piece.piece = {where.first, gradient_->piece.values.narrow(0, where.first, where.count)};
  (*leave_)(std::move(piece), static_cast<double>(sent_) / static_cast<double>(gradient_->piece.values.numel()));
}

}  // namespace troupe
