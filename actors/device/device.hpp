// What a replica needs of an accelerator, and the only door to the CUDA runtime: cuda_device.cpp behind it is built
// with TROUPE_CUDA, no_cuda.cpp without. Tests have a fake (tests/support/fake_device.hpp), so that whoever uses the
// door is tested without a GPU. A replica on the CPU has no accelerator at all.
#pragma once

#include "troupe/actors/device/mark.hpp"

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

/// What a build and the machine it runs on have for CUDA.
struct census {
  bool compiled{false};             ///< The build has CUDA parts.
  std::string version{};            ///< Of the CUDA runtime, as in "13.0"; empty where none is compiled in.
  std::vector<std::string> gpus{};  ///< Names of the devices, by index.
  std::string problem{};            ///< Where there is none: what the CUDA runtime said.
};

/// Returns what is here; found once in a process. A missing driver is an answer, not an error.
const census& here();

/// Says it in a line: "no", "13.0, cuda:0 NVIDIA H200", "13.0 (no device: no CUDA-capable device is detected)".
std::string text_of(const census& found);

/// A tensor on its way to the device: to be used once ready->hold() has been called.
struct arriving {
  at::Tensor values;
  std::shared_ptr<const mark> ready;
};

/// One compute actor's share of a device: a stream for its work, and others for what is copied beside it. Several may
/// share one GPU. What LibTorch or CUDA report is thrown as c10::Error. Between enter() and the end of its scope, one
/// thread at a time; download_then() also from the threads of autograd.
class accelerator {
 public:
  /// While it lives, work of the calling thread goes to this accelerator's own stream, in order.
  class scope {
   public:
    virtual ~scope() = default;
  };

  virtual ~accelerator() = default;
  virtual c10::Device where() const = 0;
  virtual std::unique_ptr<scope> enter() = 0;

  /// Returns float32 [count] on the device, contents undefined; its memory is used again once nobody holds it.
  virtual at::Tensor take(std::int64_t count) = 0;

  /// Returns pinned memory of the host, contents undefined; it is not used again before copies from it are done. Any
  /// thread, at any time.
  virtual at::Tensor take_pinned(at::IntArrayRef sizes, at::ScalarType type) = 0;

  /// Returns a generator of random numbers on the device.
  virtual at::Generator make_generator() = 0;

  /// Copies `host` into `target`, contiguous and on the device, in the order of the stream. `host` may be let go of
  /// when it returns, not written where it is pinned: it is frozen.
  virtual void upload(const at::Tensor& host, const at::Tensor& target) = 0;

  /// Copies `host` to the device beside the stream's work; `host` may be let go of, not written.
  virtual arriving upload_ahead(const at::Tensor& host) = 0;

  /// Returns pinned memory of the host with what `values` will be when the stream's work so far is done; waits for it.
  virtual at::Tensor download(const at::Tensor& values) = 0;

  /// The same without waiting: `done` is called with it on a thread of the accelerator, in the order of the calls.
  /// Nobody may write `values` until then. What `done` throws, and what keeps it from being called, synchronise() does.
  virtual void download_then(const at::Tensor& values, std::function<void(at::Tensor)> done) = 0;

  /// Returns a mark behind the stream's work so far.
  virtual std::shared_ptr<const mark> mark_now() = 0;

  /// Sees to it that no `done` is called any more once it returns.
  virtual void forget() noexcept = 0;

  /// Waits until all work given so far is done and every `done` has been called.
  virtual void synchronise() = 0;
};

/// Opens `where`, a CUDA device. Throws std::runtime_error where the build has no CUDA parts, c10::Error where CUDA
/// cannot use it.
std::shared_ptr<accelerator> open(c10::Device where);

}  // namespace troupe::device
