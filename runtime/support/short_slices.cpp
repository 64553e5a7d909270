#include "troupe/runtime/support/short_slices.hpp"

#include <sys/syscall.h>

#include <cstdint>
#include <sched.h>
#include <unistd.h>

namespace troupe {

namespace {

/// Same layout as struct sched_attr of linux/sched/types.h, which cannot be included together with sched.h; see
/// sched_setattr(2).
struct attributes {
  std::uint32_t size{sizeof(attributes)}, policy{0};
  std::uint64_t flags{0};
  std::int32_t nice{0};
  std::uint32_t priority{0};
  std::uint64_t runtime{0};  ///< Nanoseconds; for a thread with the usual policy, the length of its slices.
  std::uint64_t deadline{0}, period{0};
};

constexpr std::uint64_t shortest_slice = 100'000;
constexpr std::uint64_t reset_on_fork = 1;

}  // namespace

void use_short_slices() {
  attributes own;
  if (::syscall(SYS_sched_getattr, 0, &own, sizeof(own), 0) != 0) return;
  if (own.policy != SCHED_OTHER && own.policy != SCHED_BATCH) return;
  own.size = sizeof(own);
  own.flags |= reset_on_fork;
  own.runtime = shortest_slice;
  ::syscall(SYS_sched_setattr, 0, &own, 0);
}

}  // namespace troupe
