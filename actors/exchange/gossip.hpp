// Decentralised averaging: each worker mixes its parameters with those of its neighbours on a graph; no worker hears
// all others.
#pragma once

#include "troupe/actors/exchange/registry.hpp"
#include "troupe/actors/rules/mixing.hpp"

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

/// Returns the kind: x_i ← Σ_j W(i,j)·x_j in one hop, folded in the order of the members, so that the order of arrival
/// does not change the bits. With the loop `gradient, exchange, apply` it is D-PSGD: the step starts from the mixture,
/// with the gradient computed at the worker's own parameters before mixing. Source: Lian et al. 2017, "Can
/// decentralized algorithms outperform centralized algorithms?", Algorithm 1.
exchange_kind gossip_kind();

/// A setting that does not define a mixing matrix, with the reason.
struct unfit_setting : std::invalid_argument {
  explicit unfit_setting(complaint said) : std::invalid_argument(said.text), why(std::move(said)) {}
  complaint why;
};

/// Returns W for the members with these names under the settings of gossip: doubly stochastic and connected. Throws
/// unfit_setting.
rules::mixing_matrix mixing_of(const std::vector<std::string>& names, const setting_values& settings);

}  // namespace troupe
