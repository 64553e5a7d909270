// A disk without room, for tests.
#pragma once

#include <sys/resource.h>

#include <csignal>

namespace troupe::testing {

/// While an object exists, no file of this process can grow beyond so many bytes. Writing fails as on a full disk.
class full_disk {
 public:
  explicit full_disk(rlim_t most = 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit tight{most, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &tight);
  }
  ~full_disk() { ::setrlimit(RLIMIT_FSIZE, &before_); }
  full_disk(const full_disk&) = delete;
  full_disk& operator=(const full_disk&) = delete;

 private:
  rlimit before_{};
};

}  // namespace troupe::testing
