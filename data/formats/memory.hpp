// Available memory: larger sizes are refused before anything of that size is allocated.
#pragma once

#include <cstdint>

namespace troupe::data {

/// Returns how many bytes this process can still allocate: the least of what the machine has available (with swap),
/// what its control group allows, and what its resource limits (ulimit -v, -d) leave. An estimate for this moment.
std::uint64_t available_memory();

}  // namespace troupe::data
