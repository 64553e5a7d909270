// Means and variances of parts of a set, merged into those of the whole. Unlike E[x²] − E[x]², this loses no precision
// when the mean is large and the variance small (Chan, Golub, LeVeque 1983, "Algorithms for computing the sample
// variance", section 3, equation 2.1 for any number of parts).
#pragma once

#include "troupe/algorithms/rules/reduce.hpp"
#include "troupe/models/storage/buffer_pool.hpp"

#include <ATen/core/Tensor.h>

#include <vector>

namespace troupe::rules {

/// Merges summands [2·C], each C means and then C biased variances over `weight` samples: mean = Σ nᵢmᵢ / Σ nᵢ,
/// variance = Σ nᵢ(vᵢ + (mᵢ − mean)²) / Σ nᵢ, folded in order in double precision and rounded once. Returns [2·C],
/// fresh from `pool`. A single summand is returned as it is.
at::Tensor moments_in_order(const std::vector<weighted>& summands, models::buffer_pool& pool);

}  // namespace troupe::rules
