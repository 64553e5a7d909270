// Decentralised averaging: each worker mixes its parameters with those of its neighbours on a graph.
#pragma once

#include "troupe/algorithms/exchange/registry.hpp"

namespace troupe {

/// Returns the kind: x_i ← Σ_j W(i,j)·x_j in one hop, folded in the order of the members, so that the order of arrival
/// does not change the bits. With the loop `gradient, exchange, apply` it is D-PSGD: the step starts from the mixture,
/// with the gradient computed at the worker's own parameters before mixing. Source: Lian et al. 2017, "Can
/// decentralized algorithms outperform centralized algorithms?", Algorithm 1.
exchange_kind gossip_kind();

}  // namespace troupe
