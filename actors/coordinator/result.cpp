#include "troupe/actors/coordinator/result.hpp"

#include "troupe/algorithms/rules/pieces.hpp"
#include "troupe/algorithms/rules/reduce.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace troupe::rules {

namespace {

/// Returns the mean of elements [first, first + count) of the replicas, with equal weights.
at::Tensor mean_of(const replicas_by_rank& replicas, const range& where, models::buffer_pool pool) {
  std::vector<weighted> summands;
  for (const auto& [rank, replica] : replicas)
    summands.push_back({replica.values.narrow(0, where.first, where.count), 1});
  // The mean of equal values is one of them; a mean computed from their sum would be rounded.
  const auto equal = [&](const auto& summand) { return summand.values.equal(summands.front().values); };
  return std::all_of(summands.begin(), summands.end(), equal) ? summands.front().values : mean_in_order(summands, pool);
}

double distance_to(const at::Tensor& mean, const replicas_by_rank& replicas) {
  double squares = 0;
  for (const auto& [rank, replica] : replicas)
    squares += std::pow(replica.values.narrow(0, 0, mean.numel()).sub(mean).norm().item<double>(), 2);
  return std::sqrt(squares / static_cast<double>(replicas.size()));
}

}  // namespace

double distance_of(const replicas_by_rank& replicas, const result_options& options) {
  return distance_to(mean_of(replicas, {0, options.layout.parameter_end}, options.pool), replicas);
}

at::Tensor held_together(const std::vector<span>& held, const result_options& options) {
  if (held.empty()) return {};
  if (options.holder_weights.empty()) return side_by_side(held, options.layout.parameter_end, options.pool);
  if (held.size() == 1) return held.front().values;
  std::vector<weighted> summands;
  for (std::size_t i = 0; i < held.size(); ++i)
    summands.push_back({held[i].values, static_cast<double>(options.holder_weights.at(i))});
  auto pool = options.pool;
  return mean_in_order(summands, pool);
}

step_result result_of(const replicas_by_rank& replicas, at::Tensor held, const result_options& options) {
  const auto& layout = options.layout;
  const range parameters{0, layout.parameter_end}, buffers{layout.parameter_end, layout.total - layout.parameter_end};
  step_result result;
  if (replicas.empty()) {  // nothing beyond the servers' state is needed
    result.values = std::move(held);
    return result;
  }
  const auto& first = replicas.begin()->second.values;
  if (!held.defined() && options.replicas_agree) held = first.narrow(0, 0, parameters.count);
  if (!held.defined()) {
    held = mean_of(replicas, parameters, options.pool);
    result.distance = distance_to(held, replicas);
  }
  std::vector<span> pieces{{0, std::move(held)}};
  if (buffers.count > 0)
    pieces.push_back({buffers.first, options.first_buffers ? first.narrow(0, buffers.first, buffers.count)
                                                           : mean_of(replicas, buffers, options.pool)});
  result.values = side_by_side(pieces, layout.total, options.pool);
  return result;
}

}  // namespace troupe::rules
