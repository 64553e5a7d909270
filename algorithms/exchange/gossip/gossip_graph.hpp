// The settings of gossip: a graph, or a matrix, and the mixing matrix W that they define.
#pragma once

#include "troupe/algorithms/exchange/gossip/graph_registry.hpp"
#include "troupe/algorithms/exchange/registry.hpp"
#include "troupe/algorithms/rules/mixing_schedule.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

/// Thrown if the settings do not define a mixing matrix, with the reason.
struct unfit_setting : std::invalid_argument {
  explicit unfit_setting(complaint said) : std::invalid_argument(said.text), why(std::move(said)) {}
  complaint why;
};

/// Returns the mixing matrices for the members with these names under the settings of gossip. Each has the row and
/// column sums that are `required`, and all matrices together connect the members. Throws unfit_setting.
rules::mixing_schedule mixing_of(const std::vector<std::string>& names, const setting_values& settings,
                                 rules::stochastic required = rules::stochastic::doubly);

/// The following describe gossip's settings to exchange_kind, where they are explained.
std::vector<setting> gossip_settings();
setting_values with_graph(std::uint32_t members, setting_values settings);
std::optional<complaint> check_graph(const std::vector<std::string>& names, const setting_values& settings);
setting_values graph_by_index(const std::vector<std::string>& names, const setting_values& settings);

/// Returns whether every member gets the same mixture.
bool mixes_the_same(const setting_values& settings);

/// Returns names for members whose names are not known: w0, w1, …
std::vector<std::string> names_by_index(std::size_t n);

}  // namespace troupe
