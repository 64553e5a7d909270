#include "troupe/algorithms/exchange/all_reduce/automatic_route.hpp"

#include "troupe/algorithms/exchange/around/codec.hpp"
#include "troupe/algorithms/rules/message_costs.hpp"

#include <algorithm>
#include <cmath>
#include <string>

namespace troupe::all_reduce {

namespace {

/// Rounds seconds to nanoseconds, because smaller digits may differ between processors.
double in_nanoseconds(double seconds) {
  return std::round(1e9 * seconds) / 1e9;
}

/// Returns the route of messages of which partial sums cannot be encoded: a function of the exchange alone, because the
/// routes encode a different number of times.
std::string route_of_blocks(const surroundings& around, std::int64_t elements) {
  constexpr std::uint32_t few_members = 16;
  constexpr std::int64_t few_elements = 16 * 1024;
  const auto is_small = around.members <= few_members && elements <= few_elements;
  return is_small || codec_of(around.how).nature().block == 0 ? "all_gather" : "direct";
}

}  // namespace

std::vector<candidate> automatic_routes(const surroundings& around, std::int64_t elements) {
  const auto& costs = around.costs ? *around.costs : rules::costs_in_process(around.members);
  const auto others = static_cast<double>(around.members) - 1;
  const auto bytes_of = [&](std::int64_t count) {
    return static_cast<double>(codec_of(around.how).bytes(count, {.used = count, .ratio = around.ratio}));
  };
  const auto sent = bytes_of(elements);
  const auto folded = static_cast<double>(elements) * sizeof(float);
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
  if (!encodes_sums(around.how)) {
    const auto only = route_of_blocks(around, elements);
    if (!lists_pairs) add(only, seconds_up_and_back(costs, sent, sent));
    std::erase_if(routes, [&](const auto& route) { return route.value != only; });
  } else if (is_exact || !lists_pairs) {
    add("chain", seconds_up_and_back(costs, sent, bytes_of(around.chunk_elements)));
  }
  std::stable_sort(routes.begin(), routes.end(), [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
  return routes;
}

}  // namespace troupe::all_reduce
