// A point in a device's stream, carried in messages beside tensors that the device may still be computing.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <memory>

namespace troupe::device {

/// Made once, read by any thread.
class mark {
 public:
  virtual ~mark() = default;

  /// Has the stream that the calling thread works on wait for the mark, and keeps the memory of `values` from being
  /// used again before that stream is done with it. The thread itself does not wait.
  virtual void hold(const at::Tensor& values) const = 0;
};

/// Returns a mark behind what the calling thread has queued on its current stream of `where`, a CUDA device.
std::shared_ptr<const mark> mark_here(c10::Device where);

}  // namespace troupe::device
