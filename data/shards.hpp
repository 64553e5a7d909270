// Shares of a training set that differ from worker to worker, as functions of the samples' classes: what federated
// learning is studied on. Every node works out the same ones.
#pragma once

#include "troupe/data/sampler.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace troupe::data {

/// Where nobody says another.
inline constexpr double usual_alpha = 0.5;

/// Draws for each worker q ~ Dir(alpha · p), p the share of each class in the set, and then floor(N / n) samples, their
/// classes from q, without replacement; of a class that is used up no more is drawn, and the rest of q counts as the
/// whole (Hsu, Qi, Brown 2019, "Measuring the effects of non-identical data distribution for federated visual
/// classification", section 3.1). Ranks draw one after the other, so the last ones take what is left. `targets` [N],
/// int64, class indices. A function of (targets, workers, alpha, seed): it uses nothing of the machine's mathematical
/// library but square roots, so all machines draw the same.
sample_shards dirichlet_shards(const at::Tensor& targets, std::int64_t workers, double alpha, std::uint64_t seed);

/// Sorts the samples by class and hands out one block after the other, floor(N / n) each (McMahan et al. 2017,
/// "Communication-efficient learning of deep networks from decentralized data", section 3, with one block of a client).
sample_shards shards_by_label(const at::Tensor& targets, std::int64_t workers);

}  // namespace troupe::data
