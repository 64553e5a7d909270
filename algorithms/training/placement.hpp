// Where a replica's tensors are: in host memory, or on an accelerator that copies them from and to the host.
#pragma once

#include "troupe/algorithms/device/device.hpp"
#include "troupe/algorithms/messages/messages.hpp"
#include "troupe/models/storage/buffer_pool.hpp"

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace troupe {

/// A tensor that the host and the device both have, so that what was copied one way is not copied back.
struct twin {
  at::Tensor host, device;

  bool has(const at::Tensor& one) const { return one.is_same(host) || one.is_same(device); }
};

/// One thread at a time.
class placement {
 public:
  /// `gpu` is null for the host.
  placement(std::shared_ptr<device::accelerator> gpu, models::buffer_pool pool);

  device::accelerator* gpu() const { return gpu_.get(); }
  models::buffer_pool& pool() { return pool_; }

  /// Makes the accelerator's stream the current one of the calling thread until the scope ends. Returns null for the
  /// host.
  std::unique_ptr<device::accelerator::scope> enter() const;

  at::Generator make_generator() const;

  /// Return float32 tensors [count] in this placement, with undefined contents or with zeros.
  at::Tensor take(std::int64_t count);
  at::Tensor take_zeros(std::int64_t count);

  at::Tensor on_host(const at::Tensor& values) const { return gpu_ ? gpu_->download(values) : values; }

  /// Returns `values`, which are valid after `ready`, in this placement. If `last` has the same tensor, nothing is
  /// copied; afterwards, `last` has this tensor.
  at::Tensor bring(const at::Tensor& values, const std::shared_ptr<const device::mark>& ready, twin& last);

  /// Joins pieces that cover [0, count) like rules::side_by_side(), in this placement.
  at::Tensor join(const std::vector<span>& pieces, std::int64_t count);

  /// A tensor in an answer.
  struct handed_out {
    at::Tensor values;
    bool on_host{true};
    std::shared_ptr<const device::mark> ready{};  ///< Set if the tensor is on the device.
  };

  /// Returns `values` in host memory if `wanted` or if the host has them anyway, otherwise where they are.
  handed_out hand_out(const at::Tensor& values, bool wanted, twin& last);

 private:
  bool is_there(const at::Tensor& values) const { return !values.is_cpu() && values.device() == gpu_->where(); }

  std::shared_ptr<device::accelerator> gpu_;
  models::buffer_pool pool_;
};

}  // namespace troupe
