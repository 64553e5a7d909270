// A communicator of a device's own collectives, behind the only door to NCCL: nccl_collective.cpp is built with
// TROUPE_CUDA, no_cuda.cpp without; tests have a fake (tests/support/fake_collective.hpp). It is used on one lane; only
// abort() comes from outside. Its order of sums is its own: promise 1 does not cover what it adds.
#pragma once

#include "troupe/actors/messages.hpp"

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

namespace troupe::device {

/// What a call of an aborted communicator throws.
struct aborted : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class collective {
 public:
  virtual ~collective() = default;

  /// Brings the communicator about; returns when all `size` members have called it with the same `id`. Throws aborted,
  /// or std::runtime_error with what the library reports, also where a peer is lost.
  virtual void join(std::uint32_t rank, std::uint32_t size, const std::string& id) = 0;

  /// Returns Σ wⱼ·vⱼ / Σ wⱼ over the members' values and weights, in fresh memory on the device; `own.values` stays as
  /// it is. All members call it in one order with as many elements each. Returns when it is computed; throws as join().
  virtual span weighted_mean(const span& own, std::int64_t weight) = 0;

  /// Any thread: has the call under way and every later one throw `aborted`.
  virtual void abort() = 0;
};

/// Returns what the members of one new communicator know each other by.
std::string make_nccl_id();

/// Returns a communicator of NCCL for the GPU `where`, not joined yet.
std::unique_ptr<collective> open_nccl(c10::Device where);

}  // namespace troupe::device
