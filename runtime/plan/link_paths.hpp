// Finds the links of the topology file that apply to messages between two workers or servers, and their interfaces.
#pragma once

#include "troupe/runtime/plan/stages.hpp"

#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// One direction of a network interface or of a dedicated link.
struct wire_id {
  enum class belongs : std::uint8_t { to_id, to_node, to_link };
  belongs to{};
  bool sends{true};
  std::uint32_t which{0};     ///< Id or node that owns the interface, or at which the link begins.
  std::uint32_t other{0};     ///< Dedicated links only: id or node at which the link ends.
  std::size_t link{0};        ///< Dedicated links only: index of the link in link_paths.
  bool between_nodes{false};  ///< Dedicated links only: whether its ends are nodes.
  auto operator<=>(const wire_id&) const = default;
};

/// How messages travel from one worker or server to another, as far as links determine it.
struct link_path {
  std::optional<wire_id> sending{}, receiving{};  ///< Unset if the bandwidth is not limited.
  double send_rate{std::numeric_limits<double>::infinity()}, receive_rate{send_rate};  ///< In bytes per second.
  std::optional<std::chrono::microseconds> latency{}, jitter{};
  std::optional<double> loss{};
};

/// The links of a plan.
class link_paths {
 public:
  /// Uses all links of the plan or, without `real`, only those that a run emulates.
  explicit link_paths(const planned_wiring& plan, bool real = true);

  /// Returns whether there is any link.
  bool empty() const { return links_.empty(); }

  /// Returns the path between two workers or servers, by id. The last link that applies wins, key by key.
  link_path between(std::uint32_t from, std::uint32_t to) const;

  /// Returns the name of the worker, server or node that owns the interface, or "w0 to w1" for a dedicated link.
  std::string name_of(const wire_id& wire) const;

 private:
  std::string name_of_id(std::uint32_t id) const;
  bool is_at(const link_end& where, std::uint32_t id, std::uint32_t other) const;
  bool leads_between(const planned_link& which, std::uint32_t from, std::uint32_t to) const;
  static wire_id interface_of(const link_end& where, std::uint32_t id, bool sends);

  std::vector<planned_link> links_;
  std::vector<std::uint32_t> node_of_;  ///< By id.
  std::vector<std::string> node_names_;
  std::uint32_t workers_{0};
};

}  // namespace troupe
