#include "troupe/runtime/support/short_slices.hpp"

#include "tests/support/doctest.hpp"

#include <sys/resource.h>
#include <sys/syscall.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <sched.h>
#include <thread>
#include <unistd.h>

namespace troupe {

namespace {

/// Returns the length of the slices of the calling thread in nanoseconds, or the value that an older Linux reports.
std::uint64_t slice() {
  std::array<char, 48> attributes{};
  REQUIRE(::syscall(SYS_sched_getattr, 0, attributes.data(), attributes.size(), 0) == 0);
  std::uint64_t runtime = 0;
  std::memcpy(&runtime, attributes.data() + 24, sizeof(runtime));
  return runtime;
}

}  // namespace

TEST_CASE("a thread with short slices keeps its priority, and passes nothing on to the threads that it starts") {
  std::thread{[] {
    const auto usual = slice();
    ::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), 5);
    use_short_slices();
    CHECK((slice() == 100'000 || usual == 0));  // Linux before 6.12 does not report a length
    CHECK(::getpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid))) == 5);
    CHECK(::sched_getscheduler(0) == (SCHED_OTHER | SCHED_RESET_ON_FORK));
    std::thread{[usual] {
      CHECK(slice() == usual);
      CHECK(::sched_getscheduler(0) == SCHED_OTHER);
    }}.join();
  }}.join();
}

}  // namespace troupe
