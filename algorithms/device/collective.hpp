// A communicator of a device's own collectives, the only interface to NCCL: nccl_collective.cpp is built with
// TROUPE_CUDA, no_cuda.cpp without; tests use a fake (tests/support/fake_collective.hpp). It is used on one lane; only
// abort() may be called from outside. The library chooses the order of its sums, so promise 1 does not cover them.
#pragma once

#include "troupe/algorithms/messages/part.hpp"

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

namespace troupe::device {

/// Thrown by a call on an aborted communicator.
struct aborted : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class collective {
 public:
  virtual ~collective() = default;

  /// Creates the communicator; returns when all `size` members have called it with the same `id`. Throws aborted, or
  /// std::runtime_error with the library's message, also if a peer is lost.
  virtual void join(std::uint32_t rank, std::uint32_t size, const std::string& id) = 0;

  /// Returns Σ wⱼ·vⱼ / Σ wⱼ over the members' values and weights, in fresh memory on the device; `own.values` is not
  /// changed. All members must call it in the same order with the same number of elements. Returns when the result is
  /// computed; throws as join() does.
  virtual span weighted_mean(const span& own, std::int64_t weight) = 0;

  /// Makes the current and every later call throw `aborted`. Safe from any thread.
  virtual void abort() = 0;
};

/// Returns a new id by which the members of one communicator find each other.
std::string make_nccl_id();

/// Returns a communicator of NCCL for the GPU `where`, not joined yet.
std::unique_ptr<collective> open_nccl(c10::Device where);

}  // namespace troupe::device
