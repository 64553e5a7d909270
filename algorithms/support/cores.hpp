// Pins threads to cores of the machine.
#pragma once

#include <sched.h>
#include <vector>

namespace troupe {

/// Restricts the calling thread to these cores; an empty list changes nothing. Best effort: if the system does not
/// allow it, nothing changes.
inline void keep_to(const std::vector<int>& cores) {
  if (cores.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores)
    if (core >= 0 && core < CPU_SETSIZE) CPU_SET(core, &set);
  sched_setaffinity(0, sizeof(set), &set);
}

}  // namespace troupe
