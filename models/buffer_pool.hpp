// Reused memory for flat tensors. A tensor of the pool is an ordinary tensor; when its last holder lets go, wherever
// that is, its memory returns to the pool. So a buffer is written only by whoever took it from the pool, before it
// is sent, and nothing is cloned to be sent, read or evaluated. Any thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace troupe::models {

class buffer_pool {
 public:
  buffer_pool();

  /// Returns a float32 tensor [count], 64-byte aligned, contents undefined.
  at::Tensor take(std::int64_t count);

  /// As take(), filled with zeros.
  at::Tensor take_zeros(std::int64_t count);

  /// How many blocks were ever allocated: shows in tests that memory is reused.
  std::size_t allocated() const;

 private:
  struct shelf;
  std::shared_ptr<shelf> shelf_;
};

}  // namespace troupe::models
