// What `troupe tune` chooses from: the usual wirings, intervals and encodings, or what --vary names.
#pragma once

#include "troupe/runtime/topology/topology.hpp"
#include "troupe/tools/comparing/comparison.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace troupe::tuning {

/// A way to train the model of a topology file.
struct candidate {
  std::string label{};                  ///< Short unique name for tables and figures.
  std::vector<std::string> settings{};  ///< What it changes in the file, as --set takes it.
  /// Candidates of a family differ only in how much, or how often, they send. Empty if there are no others.
  std::string family{};
  std::uint32_t coarseness{0};  ///< The less a candidate sends, the larger. Equal for those with the same results.
  topology::topology file{};    ///< The whole topology.
};

/// The family of exact averages in every step: no candidate needs fewer steps.
constexpr auto* exact_family = "exact";

struct candidates {
  std::vector<candidate> all{};
  std::vector<std::pair<std::string, std::string>> refused{};  ///< Labels, and why these cannot be trained.
};

/// Returns the file as it is, and the usual ways to train its model: all_reduce of gradients, exact and encoded, of
/// parameters at several intervals, with and without an outer optimizer, gossip, and parameter servers.
candidates usual_candidates(const topology::topology& base);

/// Returns the file with every combination of these values. Throws input_error if one is not valid.
candidates varied_candidates(const topology::topology& base, const std::vector<comparing::varied_key>& varied);

}  // namespace troupe::tuning
