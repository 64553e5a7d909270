// What a replica needs from an accelerator, and the only interface to the CUDA runtime: the implementation
// cuda_device.cpp is built with TROUPE_CUDA, no_cuda.cpp without. Tests use a fake (tests/support/fake_device.hpp), so
// that users of this interface can be tested without a GPU. A replica on the CPU has no accelerator.
#pragma once

#include "troupe/algorithms/messages/mark.hpp"

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>
#include <c10/util/ArrayRef.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace troupe::device {

/// CUDA support of the build and of the machine.
struct census {
  bool compiled{false};             ///< Whether the build supports CUDA.
  std::string version{};            ///< Version of the CUDA runtime, such as "13.0"; empty if none is compiled in.
  std::vector<std::string> gpus{};  ///< Device names, by index.
  std::string problem{};            ///< The CUDA runtime's message if there is no device.
};

/// Returns the CUDA support of this process, determined once. A missing driver is part of the result, not an error.
const census& here();

/// Returns a census as one line: "no", "13.0, cuda:0 NVIDIA H200", "13.0 (no device: no CUDA-capable device is
/// detected)".
std::string text_of(const census& found);

/// A tensor being copied to the device; usable once ready->hold() has been called.
struct arriving {
  at::Tensor values;
  std::shared_ptr<const mark> ready;
};

/// One compute actor's share of a device: a stream for its work and others for concurrent copies. Several may share one
/// GPU. Errors from LibTorch or CUDA are thrown as c10::Error. Between enter() and the end of its scope, only one
/// thread may use it at a time; download_then() may also be called from autograd's threads.
class accelerator {
 public:
  /// While it exists, work of the calling thread goes to this accelerator's own stream, in order.
  class scope {
   public:
    virtual ~scope() = default;
  };

  virtual ~accelerator() = default;
  virtual c10::Device where() const = 0;
  virtual std::unique_ptr<scope> enter() = 0;

  /// Returns float32 [count] on the device with undefined contents; its memory is reused once nothing refers to it.
  virtual at::Tensor take(std::int64_t count) = 0;

  /// Returns pinned host memory with undefined contents; it is not reused before copies from it are done. Safe from any
  /// thread, at any time.
  virtual at::Tensor take_pinned(at::IntArrayRef sizes, at::ScalarType type) = 0;

  /// Returns a generator of random numbers on the device.
  virtual at::Generator make_generator() = 0;

  /// Copies `host` into `target`, which must be contiguous and on the device, in stream order. `host` may be released
  /// when the call returns, but pinned memory is frozen: it must not be written.
  virtual void upload(const at::Tensor& host, const at::Tensor& target) = 0;

  /// Copies `host` to the device concurrently with the stream's work; `host` may be released but must not be written.
  virtual arriving upload_ahead(const at::Tensor& host) = 0;

  /// Returns pinned host memory with the value of `values` once the stream's work so far is done; waits for it.
  virtual at::Tensor download(const at::Tensor& values) = 0;

  /// Downloads without waiting: `done` is called with the result on a thread of the accelerator, in the order of the
  /// calls. `values` must not be written before that. Exceptions from `done`, and failures that prevent the call, are
  /// rethrown by synchronise().
  virtual void download_then(const at::Tensor& values, std::function<void(at::Tensor)> done) = 0;

  /// Returns a mark after the stream's work so far.
  virtual std::shared_ptr<const mark> mark_now() = 0;

  /// Ensures that no `done` is called after this function returns.
  virtual void forget() noexcept = 0;

  /// Waits until all work so far is done and every `done` has been called.
  virtual void synchronise() = 0;
};

/// Opens `where`, a CUDA device. Throws std::runtime_error if the build has no CUDA support, c10::Error if CUDA cannot
/// use the device.
std::shared_ptr<accelerator> open(c10::Device where);

}  // namespace troupe::device
