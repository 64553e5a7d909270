#include "troupe/algorithms/exchange/all_reduce/norm_statistics.hpp"

#include "troupe/algorithms/exchange/all_reduce/all_reduce.hpp"
#include "troupe/algorithms/exchange/all_reduce/routes.hpp"
#include "troupe/algorithms/rules/moments.hpp"

#include <memory>
#include <string>

namespace troupe {

namespace {

/// Returns whether a bucket holds means and variances, which are two tensors. A bucket of the backward pass holds one
/// tensor.
bool holds_moments(const models::flat_layout& bucket) {
  return bucket.parameters.size() == 2;
}

exchange_kind make_kind() {
  auto kind = all_reduce_kind();
  kind.make_member = [average = kind.make_member](const member_options& options) {
    return holds_moments(options.layout) ? all_reduce::make_gathering_member(options, rules::moments_in_order)
                                         : average(options);
  };
  kind.edges = [average = kind.edges](std::uint32_t world_size, const models::flat_layout& layout,
                                      const setting_values& settings) {
    if (!holds_moments(layout)) return average(world_size, layout, settings);
    std::vector<planned_edge> edges;
    const auto add = [&](std::uint32_t from, std::uint32_t to, std::int64_t elements) {
      edges.push_back({from, to, 1, static_cast<std::uint64_t>(elements) * sizeof(float)});
    };
    all_reduce::all_gather().list_messages(world_size, layout, add);
    return edges;
  };
  return kind;
}

}  // namespace

norm_buckets norm_buckets_of(const std::vector<std::int64_t>& channels) {
  constexpr std::int64_t boundary = 16;  // floats in 64 bytes
  norm_buckets result;
  auto& layout = result.layout;
  std::int64_t end = 0;
  const auto add_bucket = [&](const std::vector<std::pair<std::string, std::int64_t>>& tensors) {
    const auto first = end;
    for (const auto& [name, count] : tensors) {
      layout.parameters.push_back({name, {count}, end, count});
      layout.parameter_count += count;
      end += count;
    }
    result.buckets.push_back({first, end - first});
    end = (end + boundary - 1) / boundary * boundary;
  };
  for (std::size_t layer = 0; layer < channels.size(); ++layer) {
    const auto which = std::to_string(layer);
    add_bucket({{"means " + which, channels[layer]}, {"variances " + which, channels[layer]}});
  }
  for (std::size_t layer = 0; layer < channels.size(); ++layer)
    add_bucket({{"gradients " + std::to_string(layer), 2 * channels[layer]}});
  layout.parameter_end = layout.total = end;
  return result;
}

const exchange_kind& norm_statistics_kind() {
  static const auto kind = make_kind();
  return kind;
}

}  // namespace troupe
