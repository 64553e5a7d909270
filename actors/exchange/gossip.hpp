// Decentralised averaging: everybody mixes his parameters with those of his neighbours on a graph, and nobody with all.
#pragma once

#include "troupe/actors/exchange/registry.hpp"
#include "troupe/actors/rules/mixing.hpp"

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

/// x_i ← Σ_j W(i,j)·x_j in one hop, folded in the order of the members, so that no order of arrival changes a bit. With
/// the loop `gradient, exchange, apply` it is D-PSGD: the step is taken from the mixture, with the gradient at the own
/// parameters before it. Source: Lian et al. 2017, "Can decentralized algorithms outperform centralized algorithms?",
/// Algorithm 1.
exchange_kind gossip_kind();

/// A setting that says of no mixing matrix, and why.
struct unfit_setting : std::invalid_argument {
  explicit unfit_setting(complaint said) : std::invalid_argument(said.text), why(std::move(said)) {}
  complaint why;
};

/// Returns W of the members so called under the settings of gossip: doubly stochastic and connected. Throws
/// unfit_setting.
rules::mixing_matrix mixing_of(const std::vector<std::string>& names, const setting_values& settings);

}  // namespace troupe
