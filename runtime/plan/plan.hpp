// The plan of a run: a topology, and everything derived from it that does not depend on time. The launcher spawns it;
// tools/drawing/ prints and draws it.
#pragma once

#include "troupe/actors/wire/actor_id.hpp"
#include "troupe/algorithms/device/device.hpp"
#include "troupe/runtime/plan/faults.hpp"
#include "troupe/runtime/plan/recipe.hpp"
#include "troupe/runtime/plan/stages.hpp"
#include "troupe/runtime/support/numa.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

/// An actor of the run and its placement.
struct planned_actor {
  actor_label label;
  std::uint32_t node{0};  ///< Index in plan::nodes.
};

/// What the ports of an exchange send to each other.
struct exchange_traffic {
  /// Choice for each bucket, or for the whole tensor; empty if the kind chooses nothing.
  std::vector<choice> choices{};
  std::vector<std::string> assumed_links{};  ///< Descriptions of the links that the choices assume.
  /// Edges between ids, with the traffic of one exchange; that is the traffic of one step only if due.every is 1.
  std::vector<planned_edge> edges{};
  /// For each index in planned_exchange::ids(), the indices of all ports that this port ever sends to or receives from,
  /// ascending and without itself.
  std::vector<std::vector<std::uint32_t>> peers{};
};

/// A sum of traffic per step.
struct traffic_sum {
  std::uint64_t edges{0};
  double messages{0}, bytes{0};  ///< Per step; the mean if an exchange is not due in every step.
};

/// A validated topology with everything derived from it.
struct plan : planned_training {
  std::vector<exchange_traffic> traffic{};  ///< By exchange: see traffic_of().
  std::vector<planned_fault> faults{};      ///< Faults of a simulation.
  std::vector<planned_actor> actors{};

  const exchange_traffic& traffic_of(const planned_exchange& exchange) const { return traffic.at(exchange.place); }
  double bytes_per_step() const;  ///< Tensor payload of all senders; the mean if an exchange is not due in every step.
  double messages_per_step() const;  ///< The number of tensor messages, averaged in the same way.
  bool crosses(const planned_edge& edge) const { return node_of(edge.from) != node_of(edge.to); }
  traffic_sum between_nodes() const;  ///< Traffic between processes.
  /// Returns the bytes that a server of an exchange sends to a worker at a time, or the size of a shared memory.
  std::uint64_t bytes_held(const planned_exchange& exchange, std::uint32_t server) const;
};

/// Reads the data set that a topology names. Throws input_error, with path, reason and fix, for a missing folder or a
/// broken file.
data::dataset_pair load_data(const topology::topology& file);

/// Returns the shape with which a model is made: the shape of the samples, the classes, and the settings of the model.
models::network_shape shape_of(const topology::model_settings& model, const std::vector<std::int64_t>& input,
                               std::int64_t classes);

/// Derives the plan. Its file is the result of expand_replicas() for a machine with this `memory`. Throws input_error,
/// naming the key to change, if the numbers do not fit (no step in an epoch, more workers than samples, a device that
/// `machine` does not have …).
plan make_plan(const topology::topology& file, const data_facts& facts, const device::census& machine = device::here(),
               const std::vector<numa_node>& memory = numa_nodes());

}  // namespace troupe
