#include "troupe/algorithms/rules/shards.hpp"

#include <algorithm>

namespace troupe::rules {

namespace {

/// Fills ranges of at most `most` elements one after the other, but leaves a parameter for each remaining range.
std::vector<range> fill(const std::vector<range>& parameters, std::size_t shards, std::int64_t most) {
  std::vector<range> result;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto ranges_to_come = shards - std::min(shards, result.size());
    const auto opens =
        result.empty() || result.back().count + parameters[i].count > most || parameters.size() - i <= ranges_to_come;
    if (opens)
      result.push_back(parameters[i]);
    else
      result.back().count += parameters[i].count;
  }
  return result;
}

}  // namespace

std::vector<range> parameter_shards(const models::flat_layout& layout, std::uint32_t shards) {
  std::vector<range> parameters;
  std::int64_t most = 0;
  for (std::size_t i = 0; i < layout.parameters.size(); ++i) {
    const auto first = layout.parameters[i].first;
    const auto end = i + 1 < layout.parameters.size() ? layout.parameters[i + 1].first : layout.parameter_end;
    parameters.push_back({first, end - first});
    most = std::max(most, end - first);
  }
  // Finds the smallest bound that `count` ranges can keep. It is at least the largest parameter and at most the whole.
  const auto count = std::min<std::size_t>(shards, parameters.size());
  auto enough = layout.parameter_end;
  while (most < enough) {
    const auto middle = most + (enough - most) / 2;
    if (fill(parameters, count, middle).size() <= count)
      enough = middle;
    else
      most = middle + 1;
  }
  return fill(parameters, count, enough);
}

}  // namespace troupe::rules
