#include "troupe/algorithms/exchange/all_reduce/automatic_route.hpp"

#include "troupe/algorithms/exchange/around/codec.hpp"
#include "troupe/algorithms/rules/message_costs.hpp"

#include <algorithm>
#include <cmath>

namespace troupe::all_reduce {

namespace {

/// Rounds seconds to nanoseconds, because smaller digits may differ between processors.
double in_nanoseconds(double seconds) {
  return std::round(1e9 * seconds) / 1e9;
}

}  // namespace

std::vector<candidate> automatic_routes(const surroundings& around, std::int64_t elements) {
  const auto& costs = around.costs ? *around.costs : rules::costs_in_process(around.members);
  const auto others = static_cast<double>(around.members) - 1;
  const auto sent = static_cast<double>(codec_of(around.how).max_bytes(elements));
  const auto folded = static_cast<double>(elements) * sizeof(float);
  const auto chunk = static_cast<double>(codec_of(around.how).max_bytes(around.chunk_elements));
  std::vector<candidate> routes;
  const auto add = [&](const std::string& name, double seconds) { routes.push_back({name, in_nanoseconds(seconds)}); };
  const auto is_exact = around.how == encoding::float32;
  const auto lists_pairs = around.members <= rules::members_of_pairs;
  if (lists_pairs) {
    // Every member folds everything.
    add("all_gather", seconds_to_all(costs, sent) + seconds_to_handle(costs, others, (others + 1) * folded));
    // Every member folds one shard and sends its mean to all others.
    add("direct", 2 * seconds_to_all(costs, sent / (others + 1)) + seconds_to_handle(costs, 2 * others, folded));
  }
  if (is_exact || !lists_pairs) add("chain", seconds_up_and_back(costs, sent, chunk));
  std::stable_sort(routes.begin(), routes.end(), [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
  return routes;
}

}  // namespace troupe::all_reduce
