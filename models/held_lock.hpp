// A lock that several processes may share, held while it is in scope.
#pragma once

#include <cerrno>
#include <pthread.h>
#include <stdexcept>

namespace troupe::models {

/// Holds `lock`; null for no lock. Throws std::runtime_error if its holder died, then and at every later attempt.
class held_lock {
 public:
  explicit held_lock(pthread_mutex_t* lock) : lock_{lock} {
    if (lock_ == nullptr) return;
    const int status = pthread_mutex_lock(lock_);
    if (status == 0) return;
    // Unlocked without being declared consistent, so that other waiting threads learn of this too.
    if (status == EOWNERDEAD) pthread_mutex_unlock(lock_);
    throw std::runtime_error("the process that held the lock of the shared parameters died in the middle of a step");
  }
  ~held_lock() {
    if (lock_ != nullptr) pthread_mutex_unlock(lock_);
  }
  held_lock(const held_lock&) = delete;
  held_lock& operator=(const held_lock&) = delete;

 private:
  pthread_mutex_t* lock_;
};

}  // namespace troupe::models
