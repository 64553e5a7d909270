// Which cores of the machine a thread runs on.
#pragma once

#include <sched.h>
#include <vector>

namespace troupe {

/// Has the calling thread run on these cores only; none: it stays as it is. A wish: where the system does not allow it,
/// nothing changes.
inline void keep_to(const std::vector<int>& cores) {
  if (cores.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores)
    if (core >= 0 && core < CPU_SETSIZE) CPU_SET(core, &set);
  sched_setaffinity(0, sizeof(set), &set);
}

}  // namespace troupe
