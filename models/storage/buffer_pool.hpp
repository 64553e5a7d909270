// Reused memory for flat tensors. A tensor of the pool is an ordinary tensor; when its last reference is released,
// anywhere, its memory returns to the pool. So a buffer is written only by the code that took it from the pool, before
// it is sent, and nothing is cloned to be sent, read or evaluated. Any thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace troupe::models {

/// A pool of float32 tensors. Copies share one pool. Safe to use from any thread.
class buffer_pool {
 public:
  buffer_pool();

  /// Returns a float32 tensor [count], 64-byte aligned, with undefined contents.
  at::Tensor take(std::int64_t count);

  /// Returns a tensor as take() does, filled with zeros.
  at::Tensor take_zeros(std::int64_t count);

  /// Returns the number of blocks ever allocated; tests use it to check reuse.
  std::size_t allocated() const;

 private:
  struct shelf;
  std::shared_ptr<shelf> shelf_;
};

}  // namespace troupe::models
