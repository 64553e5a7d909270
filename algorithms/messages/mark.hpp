// A point in a device's stream, sent together with tensors that the device may still be computing.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <memory>

namespace troupe::device {

/// A mark; immutable, readable by any thread.
class mark {
 public:
  virtual ~mark() = default;

  /// Makes the calling thread's stream wait for the mark, and keeps the memory of `values` from being reused before
  /// that stream is done with it. The thread itself does not wait.
  virtual void hold(const at::Tensor& values) const = 0;
};

/// Returns a mark after everything the calling thread has queued on its current stream of `where`, a CUDA device.
std::shared_ptr<const mark> mark_here(c10::Device where);

}  // namespace troupe::device
