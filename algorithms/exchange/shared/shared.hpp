// Hogwild! (Niu, Recht, Ré, Wright 2011): the members' parameters are one memory that all workers read and write
// without waiting for each other. Nothing is sent; see shared_memory.hpp.
#pragma once

#include "troupe/algorithms/exchange/registry.hpp"

namespace troupe {

exchange_kind shared_kind();

/// Granularity at which workers share a memory: the setting `replicas` of this kind.
enum class replicas : std::uint8_t { machine, node, core };

/// Returns the value of the setting `replicas`.
replicas replicas_of(const setting_values& settings);

/// Returns the setting `local_steps`: the number of steps a worker takes on a copy of x before it adds the change to
/// the memory; 1 for steps on x itself.
std::int64_t local_steps_of(const setting_values& settings);

}  // namespace troupe
