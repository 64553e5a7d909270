// The two steps of make_batch() for dense samples, for callers that already have memory for a batch, such as the
// loader.
#pragma once

#include "troupe/data/sets/dataset.hpp"

#include <c10/core/ScalarType.h>
#include <c10/util/ArrayRef.h>

#include <cstdint>
#include <functional>
#include <span>

namespace troupe::data {

/// Allocates a contiguous host tensor with undefined contents.
using spawn_memory = std::function<at::Tensor(at::IntArrayRef sizes, at::ScalarType type)>;

/// Returns the tensors of a batch of `count` samples with undefined contents. The set's samples must be dense.
batch empty_batch(const dataset& set, std::int64_t count, const spawn_memory& from);

/// Returns the number of bytes of those tensors.
std::int64_t batch_bytes(const dataset& set, std::int64_t count);

/// Fills `into`, an empty_batch() of the same size, with the samples `indices`. Throws as make_batch() does. Any
/// thread.
void fill_batch(const dataset& set, const normalisation& scale, std::span<const std::int64_t> indices,
                const augmenting& by, const batch& into);

}  // namespace troupe::data
