// How the workers of a shared memory write it.
#pragma once

#include <cstdint>

namespace troupe {

/// How workers write x, the parameters in a shared memory.
enum class memory_writes : std::uint8_t {
  plain,   ///< Read, add, write: if two workers update a coordinate at once, one update may be lost.
  atomic,  ///< Each coordinate's addition is atomic, as the Hogwild paper assumes; no update is lost.
  locked,  ///< A worker reads or writes all of x exclusively; the baseline that Hogwild is compared with.
};

}  // namespace troupe
