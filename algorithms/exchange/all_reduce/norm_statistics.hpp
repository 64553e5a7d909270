// Exchanges the statistics of synchronised batch norms. Topology files cannot name it: a plan adds it if
// model.sync_batch_norm is set. Each layer has a forward bucket (merged means and variances) and a backward bucket
// (averaged); see docs/decisions/0008-norm-moments.md.
#pragma once

#include "troupe/algorithms/exchange/registry.hpp"
#include "troupe/algorithms/messages/part.hpp"
#include "troupe/models/storage/flat.hpp"

#include <cstdint>
#include <vector>

namespace troupe {

/// The exchanged tensor and its buckets: the forward buckets of all layers in order, then the backward buckets.
struct norm_buckets {
  models::flat_layout layout{};
  std::vector<range> buckets{};
};

/// Lays out the statistics of layers with these numbers of channels.
norm_buckets norm_buckets_of(const std::vector<std::int64_t>& channels);

/// Returns the kind; its settings are those of all_reduce.
const exchange_kind& norm_statistics_kind();

}  // namespace troupe
