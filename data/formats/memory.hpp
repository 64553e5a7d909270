// How much memory there is: sizes beyond it are refused before anything of that size is allocated.
#pragma once

#include <cstdint>

namespace troupe::data {

/// Returns how many bytes this process can still allocate: the least of what the machine has available (with swap),
/// what its control group allows, and what its resource limits (ulimit -v, -d) leave. A moment's estimate.
std::uint64_t available_memory();

}  // namespace troupe::data
