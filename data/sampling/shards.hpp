// Shares of a training set that differ between workers, as functions of the samples' classes: the usual setting for
// federated learning. Every node computes the same shares.
#pragma once

#include "troupe/data/sampling/sampler.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace troupe::data {

/// Default for alpha.
inline constexpr double usual_alpha = 0.5;

/// Draws for each worker q ~ Dir(alpha · p), where p is the share of each class in the set, and then floor(N / n)
/// samples with classes from q, without replacement. No more samples are drawn from an exhausted class; the rest of q
/// is then renormalised (Hsu, Qi, Brown 2019, "Measuring the effects of non-identical data distribution for federated
/// visual classification", section 3.1). Ranks draw one after the other, so the last ones take what is left. `targets`
/// [N], int64, are class indices. A function of (targets, workers, alpha, seed): from the machine's mathematical
/// library it uses only square roots, so all machines draw the same.
sample_shards dirichlet_shards(const at::Tensor& targets, std::int64_t workers, double alpha, std::uint64_t seed);

/// Sorts the samples by class and assigns one block after the other, floor(N / n) each (McMahan et al. 2017,
/// "Communication-efficient learning of deep networks from decentralized data", section 3, with one block per client).
sample_shards shards_by_label(const at::Tensor& targets, std::int64_t workers);

}  // namespace troupe::data
