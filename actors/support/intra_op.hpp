// LibTorch's intra-op threads of one thread of ours. Called on that thread, before its first operator.
#pragma once

#include <ATen/Parallel.h>

#include <cstdint>

namespace troupe {

/// Gives the calling thread `count` of them. LibTorch keeps the number of the thread that asked last for the whole
/// process, too, and takes that one at a thread's first operator: here that has happened before ours is set, so that no
/// other thread can change it any more.
inline void use_intra_op_threads(std::int64_t count) {
  at::get_num_threads();
  at::set_num_threads(static_cast<int>(count));
}

}  // namespace troupe
