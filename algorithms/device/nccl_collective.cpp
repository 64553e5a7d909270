// The implementation of collective.hpp with NCCL. The communicator is non-blocking, and the lane that makes a call
// polls it until the call completes. Thus abort() only has to set a flag, and only one thread uses the communicator.
#include "troupe/algorithms/device/collective.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/mul.h>
#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <nccl.h>
#include <thread>
#include <utility>

namespace troupe::device {

namespace {

using c10::cuda::CUDAEvent;
using c10::cuda::CUDAStream;
using c10::cuda::CUDAStreamGuard;

class nccl_collective final : public collective {
 public:
  explicit nccl_collective(c10::Device where)
      : where_(where), stream_(c10::cuda::getStreamFromPool(/*isHighPriority=*/true, where.index())) {}

  ~nccl_collective() override {
    if (communicator_) ncclCommAbort(communicator_);
  }

  void join(std::uint32_t rank, std::uint32_t size, const std::string& id) override {
    ncclUniqueId shared{};
    if (id.size() != sizeof(shared.internal)) throw std::runtime_error("the id of a communicator has the wrong length");
    std::memcpy(shared.internal, id.data(), id.size());
    const c10::cuda::CUDAGuard on{where_};
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    finish(ncclCommInitRankConfig(&communicator_, static_cast<int>(size), shared, static_cast<int>(rank), &config));
  }

  span weighted_mean(const span& own, std::int64_t weight) override {
    const CUDAStreamGuard on{stream_};
    if (own.ready) own.ready->hold(own.values);
    const auto count = own.values.numel();
    // The weight is sent after the values, so that one call computes both sums; exact up to 2^24 samples.
    auto sums = at::empty({count + 1}, own.values.options().device(where_));
    auto values = sums.narrow(0, 0, count);
    // Parameters that were also sent as a snapshot are in host memory.
    at::mul_out(values, own.values.to(where_), static_cast<double>(weight));
    const auto weights = sums.narrow(0, count, 1);
    weights.fill_(static_cast<double>(weight));
    finish(ncclAllReduce(sums.const_data_ptr(), sums.mutable_data_ptr(), static_cast<std::size_t>(count + 1), ncclFloat,
                         ncclSum, communicator_, stream_.stream()));
    values.div_(weights);
    CUDAEvent done;
    done.record(stream_);
    wait_for(done);
    return {own.first, std::move(values), mark_here(where_)};
  }

  void abort() override { aborted_ = true; }

 private:
  /// Waits until a call that has returned `code` is no longer in progress. Throws if it failed.
  void finish(ncclResult_t code) {
    while (code == ncclInProgress) {
      breathe();
      const auto asked = communicator_ ? ncclCommGetAsyncError(communicator_, &code) : ncclSuccess;
      if (asked != ncclSuccess) code = asked;
    }
    if (code != ncclSuccess) fail(code);
  }

  void wait_for(const CUDAEvent& event) {
    while (!event.query()) {
      breathe();
      auto code = ncclSuccess;
      if (const auto asked = ncclCommGetAsyncError(communicator_, &code); asked != ncclSuccess) code = asked;
      if (code != ncclSuccess && code != ncclInProgress) fail(code);
    }
  }

  /// Yields to other threads. Throws `aborted` after abort().
  void breathe() {
    if (!aborted_) return std::this_thread::sleep_for(std::chrono::microseconds{20});
    give_up();
    throw aborted("the communicator was aborted");
  }

  [[noreturn]] void fail(ncclResult_t code) {
    const std::string said = ncclGetErrorString(code);
    const std::string more = communicator_ ? ncclGetLastError(communicator_) : "";
    give_up();
    throw std::runtime_error("NCCL: " + said + (more.empty() ? "" : " (" + more + ")"));
  }

  void give_up() {
    if (communicator_) ncclCommAbort(std::exchange(communicator_, nullptr));
  }

  c10::Device where_;
  CUDAStream stream_;
  ncclComm_t communicator_{nullptr};
  std::atomic<bool> aborted_{false};
};

}  // namespace

std::string make_nccl_id() {
  ncclUniqueId id{};
  if (const auto code = ncclGetUniqueId(&id); code != ncclSuccess)
    throw std::runtime_error(std::string{"NCCL: "} + ncclGetErrorString(code));
  return {id.internal, sizeof(id.internal)};
}

std::unique_ptr<collective> open_nccl(c10::Device where) {
  return std::make_unique<nccl_collective>(where);
}

}  // namespace troupe::device
