// Sets LibTorch's intra-op threads for one of our threads. To be called on that thread, before its first operator.
#pragma once

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <strings.h>

namespace troupe {

/// Sets the number of intra-op threads of the calling thread to `count`. LibTorch also stores the number of the last
/// caller for the whole process and applies that number at a thread's first operator. get_num_threads() counts as the
/// first operator, so that no other thread can change the number set after it.
inline void use_intra_op_threads(std::int64_t count) {
  at::get_num_threads();
  at::set_num_threads(static_cast<int>(count));
}

/// Returns how many of `wanted` intra-op threads are available to this process. OMP_THREAD_LIMIT limits them; with
/// OMP_DYNAMIC, their number depends on the load, so that only one is certain.
inline std::int64_t available_intra_op_threads(std::int64_t wanted) {
  const auto* dynamic = std::getenv("OMP_DYNAMIC");
  if (dynamic != nullptr && strcasecmp(dynamic, "true") == 0) return 1;
  const auto* limit = std::getenv("OMP_THREAD_LIMIT");
  const auto most = limit != nullptr ? std::atoll(limit) : 0;
  return most > 0 ? std::min<std::int64_t>(wanted, most) : wanted;
}

}  // namespace troupe
