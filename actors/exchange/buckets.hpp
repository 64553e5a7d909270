// Exchanges whose tensors travel in buckets: each bucket is an exchange by itself, of any kind, so that one is folded
// and sent while backward still computes the next. Sums are per element, so cutting them changes no bits (but those of
// the ring, whose segments are cut from each bucket then). Source of the name and of the sizes: Li et al., "PyTorch
// Distributed: Experiences on Accelerating Data Parallel Training", VLDB 2020, section 4.2.
#pragma once

#include "troupe/actors/exchange/member.hpp"
#include "troupe/actors/exchange/registry.hpp"
#include "troupe/actors/port.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace troupe {

/// Returns `settings` and those that say how a gradient travels, for kinds that answer gradients with gradients: send,
/// bucket_mb.
std::vector<setting> with_send_settings(std::vector<setting> settings);

/// Returns the settings without bucket_mb where no bucket has that size.
setting_values without_idle_send_settings(setting_values settings);

/// Returns whether these settings have gradients sent in buckets.
bool sends_buckets(const setting_values& settings);

/// Returns the buckets in which the gradient travels under these settings: see cut_in_buckets.
std::vector<range> buckets_of(const setting_values& settings, const models::flat_layout& layout,
                              const std::vector<std::size_t>& order);

/// Makes the side of one member, which runs a member of `make_inner` for each of own.buckets. It takes contributions
/// bucket by bucket, in any order, or whole.
std::unique_ptr<member> make_bucketed_member(
    const port_options& own, const std::function<std::unique_ptr<member>(const port_options&)>& make_inner);

/// Returns the parameters of `layout` that lie in `bucket`: its elements are the whole there.
models::flat_layout layout_of_bucket(const models::flat_layout& layout, const range& bucket);

/// Cuts the parameters of `layout` into buckets of at least `capacity` bytes (the last may be smaller, the first is
/// full at `first_capacity`), `order` being that in which gradients come. A bucket of parameters that do not lie side
/// by side becomes several, so each is one range of the flat storage, padding included.
std::vector<range> cut_in_buckets(const models::flat_layout& layout, const std::vector<std::size_t>& order,
                                  std::int64_t first_capacity, std::int64_t capacity);

}  // namespace troupe
