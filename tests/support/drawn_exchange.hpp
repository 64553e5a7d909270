// An exchange with settings drawn from the registry, as a topology file. Tests use it to check every registered
// exchange, whatever its settings.
#pragma once

#include "troupe/algorithms/exchange/registry.hpp"
#include "troupe/algorithms/messages/messages.hpp"
#include "troupe/files/setting.hpp"
#include "troupe/runtime/plan/plan.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe::tests {

struct drawn_exchange {
  const exchange_kind* kind{nullptr};
  slot sends{};
  std::string encoding{"float32"};
  setting_values settings{};  ///< The settings that the file sets.
  std::uint32_t workers{2};
  std::vector<std::uint32_t> nodes{};  ///< Number of workers of each node, if they are not all in one process.
  std::uint64_t every{1};
  bool in_groups{false};             ///< Whether its members are groups of workers, each with an all_reduce of its own.
  std::uint64_t every_of_groups{1};  ///< Interval of these all_reduces; above 1, the workers of a group differ.
  std::optional<bool> before_apply{};  ///< Whether it precedes "apply" in the loop; empty for the default.
  std::optional<std::int64_t> rank{};  ///< Rank of the approximations that the encoding sends.
  std::optional<double> ratio{};       ///< Share of the values that the encoding sends.
  std::optional<bool> feedback{};      ///< Whether what the encoding loses is sent later; empty for its default.
  bool of_many{false};                 ///< Whether the model has more than 16 Ki parameters, rather than some 3,000.
};

/// Exchanges of one kind that send one slot in one encoding.
struct drawn_kind {
  const exchange_kind* kind{nullptr};
  slot sends{};
  std::string encoding{"float32"};
  std::vector<drawn_exchange> accepted{};  ///< Exchanges from which a plan can be made.
  std::uint64_t refused{0};                ///< Number of other exchanges.
};

/// Draws exchanges of each registered kind, of each slot that it can send, in each encoding, until `count` are accepted
/// or 24 times as many are refused; of further encodings than bf16, an eighth. A function of the registry alone. If
/// `count` is 0, draws one with each combination of choices and booleans, for each number of workers from 2 to 17, with
/// and without groups, with few and many parameters.
std::vector<drawn_kind> draw_exchanges(std::uint64_t count);

/// Returns the file of a run of four steps on the digits, on nodes or in one process.
std::string file_of(const drawn_exchange& of, bool on_nodes);

/// Returns the plan of that file for a training set of so many samples, or nothing if it is refused.
std::optional<plan> plan_of(const drawn_exchange& of, bool on_nodes, std::int64_t samples = 200);

/// Returns a description for failed checks.
std::string name_of(const drawn_exchange& of);

}  // namespace troupe::tests
