// LibTorch's intra-op threads for one of our threads. Call it on that thread, before its first operator.
#pragma once

#include <ATen/Parallel.h>

#include <cstdint>

namespace troupe {

/// Sets the number of intra-op threads of the calling thread to `count`. LibTorch also stores the number of the last
/// caller for the whole process and takes that one at a thread's first operator. Here the first operator has already
/// run when ours is set, so that no other thread can change it.
inline void use_intra_op_threads(std::int64_t count) {
  at::get_num_threads();
  at::set_num_threads(static_cast<int>(count));
}

}  // namespace troupe
