// Hogwild!: the members' parameters are one memory, which all read and write without waiting for each other: Niu,
// Recht, Ré, Wright 2011. Nothing is sent; see shared_memory.hpp.
#pragma once

#include "troupe/actors/exchange/registry.hpp"

namespace troupe {

exchange_kind shared_kind();

/// On which parts of the machine workers share a memory: `replicas` of this kind.
enum class replicas : std::uint8_t { machine, node, core };

/// Returns what the settings of a shared exchange say.
replicas replicas_of(const setting_values& settings);

/// Likewise: steps that a worker makes on a copy of x before it adds what has changed to the memory; 1: on x itself.
std::int64_t local_steps_of(const setting_values& settings);

}  // namespace troupe
