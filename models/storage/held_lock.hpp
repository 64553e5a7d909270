// A lock that several processes may share, held while it is in scope.
#pragma once

#include <cerrno>
#include <pthread.h>
#include <stdexcept>

namespace troupe::models {

/// A lock that one thread at a time may hold.
class exclusive_lock {
 public:
  virtual ~exclusive_lock() = default;

  /// Waits for the lock and takes it. Throws std::runtime_error if that is no longer possible.
  virtual void lock() = 0;
  virtual void unlock() = 0;
};

/// Thrown if the process that held a lock has died.
struct lock_holder_died : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A robust mutex in memory that processes share. Once its holder has died, lock() throws
/// lock_holder_died at every attempt.
class process_lock : public exclusive_lock {
 public:
  explicit process_lock(pthread_mutex_t& mutex) : mutex_(&mutex) {}

  void lock() override {
    const int status = pthread_mutex_lock(mutex_);
    if (status == 0) return;
    // Unlocked without being declared consistent, so that lock() also fails in the other waiting threads.
    if (status == EOWNERDEAD) pthread_mutex_unlock(mutex_);
    throw lock_holder_died("the process that held the lock of the shared parameters died in the middle of a step");
  }
  void unlock() override { pthread_mutex_unlock(mutex_); }

 private:
  pthread_mutex_t* mutex_;
};

/// Holds `lock`; null for no lock.
class held_lock {
 public:
  explicit held_lock(exclusive_lock* lock) : lock_{lock} {
    if (lock_ != nullptr) lock_->lock();
  }
  ~held_lock() {
    if (lock_ != nullptr) lock_->unlock();
  }
  held_lock(const held_lock&) = delete;
  held_lock& operator=(const held_lock&) = delete;

 private:
  exclusive_lock* lock_;
};

}  // namespace troupe::models
