// The servers of a parameter_server: each holds a shard of the parameters and decides when to update it.
#pragma once

#include "troupe/algorithms/exchange/member.hpp"
#include "troupe/algorithms/exchange/member_options.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace troupe::parameter_server {

/// When and with what a server updates its shard.
enum class applies : std::uint8_t {
  all,    ///< With the mean, once the gradients of all workers have arrived.
  first,  ///< With the mean of the first gradients of each version; later ones are refused.
  each,   ///< With each gradient as it arrives.
};

struct rule {
  applies apply{applies::all};
  std::uint32_t first{0};                          ///< Number of gradients that make an update, for applies::first.
  std::optional<std::uint64_t> staleness_bound{};  ///< Steps that a worker may be ahead of the slowest.
};

rule rule_of(const setting_values& settings);

/// Returns the number of servers.
std::uint32_t shards_of(const setting_values& settings);

/// Returns the range of the parameters that each server holds. There may be fewer ranges than servers.
std::vector<range> cut_of(const models::flat_layout& layout, const setting_values& settings);

/// Makes the server of one shard.
std::unique_ptr<member> make_shard(const member_options& options);

}  // namespace troupe::parameter_server
