// CPU time used so far.
#pragma once

#include <chrono>
#include <ctime>

namespace troupe::data {

namespace detail {

inline std::chrono::nanoseconds cpu_time_of(clockid_t which) {
  timespec used{};
  clock_gettime(which, &used);
  return std::chrono::seconds{used.tv_sec} + std::chrono::nanoseconds{used.tv_nsec};
}

}  // namespace detail

/// Returns the CPU time of the calling thread.
inline std::chrono::nanoseconds cpu_time_of_thread() {
  return detail::cpu_time_of(CLOCK_THREAD_CPUTIME_ID);
}

/// Returns the CPU time of all threads of this process.
inline std::chrono::nanoseconds cpu_time_of_process() {
  return detail::cpu_time_of(CLOCK_PROCESS_CPUTIME_ID);
}

}  // namespace troupe::data
