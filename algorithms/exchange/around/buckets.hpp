// Exchanges whose tensors travel in buckets. Each bucket is an exchange of its own, of any kind, so that one is folded
// and sent while backward still computes the next. Sums are per element, so cutting does not change any bits (except
// for the ring, whose segments are then cut from each bucket). Source of the name and of the sizes: Li et al., "PyTorch
// Distributed: Experiences on Accelerating Data Parallel Training", VLDB 2020, section 4.2.
#pragma once

#include "troupe/algorithms/exchange/around/wrapper.hpp"
#include "troupe/algorithms/exchange/registry.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace troupe {

/// Returns `settings` extended by send and bucket_mb, the settings that control how a gradient travels. For kinds that
/// answer gradients with gradients.
std::vector<setting> with_send_settings(std::vector<setting> settings);

/// Returns the settings without bucket_mb unless gradients are sent in buckets.
setting_values without_idle_send_settings(setting_values settings);

/// Returns whether these settings send gradients in buckets.
bool sends_buckets(const setting_values& settings);

/// Returns the buckets in which the gradient travels under these settings; see cut_in_buckets.
std::vector<range> buckets_of(const setting_values& settings, const models::flat_layout& layout,
                              const std::vector<std::size_t>& order);

/// A wrapper: makes a member that runs one `make_inner` member for each of own.buckets. It accepts contributions bucket
/// by bucket, in any order, or whole.
std::unique_ptr<member> make_bucketed_member(const member_options& own, const member_maker& make_inner);

/// Returns the parameters of `layout` that lie in `bucket`, as a layout whose elements are those of the bucket.
models::flat_layout layout_of_bucket(const models::flat_layout& layout, const range& bucket);

/// Cuts the parameters of `layout` into buckets of at least `capacity` bytes (the last may be smaller, the first is
/// full at `first_capacity`). `order` is the order in which gradients become available. A bucket whose parameters are
/// not contiguous becomes several, so that each is one range of the flat storage, padding included.
std::vector<range> cut_in_buckets(const models::flat_layout& layout, const std::vector<std::size_t>& order,
                                  std::int64_t first_capacity, std::int64_t capacity);

}  // namespace troupe
