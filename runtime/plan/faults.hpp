// The faults of a simulated run: section [[fault]] of the topology file, with names and times resolved.
#pragma once

#include "troupe/runtime/topology/topology.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

struct plan;
struct planned_work;

struct planned_fault {
  enum class kind : std::uint8_t { kill, freeze, partition, slow };
  topology::fault_settings given;
  kind what{};
  std::optional<std::uint64_t> at_step{};  ///< Trigger: number of steps that every worker has completed.
  std::chrono::microseconds at_time{0};    ///< Trigger if `at_step` is unset: time since training began.
  /// Index of the node that the fault concerns, or indices of the two nodes between which it happens. A partition of
  /// one node separates it from all others.
  std::vector<std::uint32_t> nodes{};
};

/// Resolves the faults of the topology file. Throws input_error if one names a node that the plan does not have, never
/// happens, or has a key that its kind does not use.
std::vector<planned_fault> plan_faults(const planned_work& plan);

/// Throws input_error if the plan has faults: only a simulation injects them.
void check_no_faults(const plan& plan);

/// Returns text such as "freeze beta at step 100 for 2s".
std::string describe(const planned_fault& fault);

}  // namespace troupe
