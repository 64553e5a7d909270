// The implementation of device.hpp with the CUDA runtime.
#include "troupe/algorithms/device/device.hpp"

#include <ATen/Context.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <condition_variable>
#include <cuda_runtime_api.h>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

namespace troupe::device {

namespace {

using c10::cuda::CUDAEvent;
using c10::cuda::CUDAStream;
using c10::cuda::CUDAStreamGuard;

class cuda_mark final : public mark {
 public:
  explicit cuda_mark(const CUDAStream& behind) { event_.record(behind); }

  void hold(const at::Tensor& values) const override {
    const auto stream = c10::cuda::getCurrentCUDAStream(event_.device_index());
    event_.block(stream);
    if (values.defined()) values.record_stream(stream.unwrap());
  }

 private:
  mutable CUDAEvent event_;
};

class cuda_scope final : public accelerator::scope {
 public:
  explicit cuda_scope(const CUDAStream& stream) : guard_(stream) {}

 private:
  CUDAStreamGuard guard_;
};

/// Returns uninitialised pinned memory from LibTorch's caching host allocator, which reuses it only after the copies
/// from or to it that LibTorch has queued are done.
at::Tensor pinned_like(const at::Tensor& values) {
  return at::empty(values.sizes(), at::TensorOptions().dtype(values.dtype()).pinned_memory(true));
}

at::Tensor in_pinned_memory(const at::Tensor& host) {
  if (host.is_pinned()) return host;
  auto staged = pinned_like(host);
  staged.copy_(host);
  return staged;
}

/// Calls back, on a thread of its own, when copies have arrived. Host functions of CUDA would need no thread, but
/// they must not call CUDA, as freeing a tensor does.
class arrivals {
 public:
  arrivals() : thread_([this] { run(); }) {}

  ~arrivals() {
    {
      const std::lock_guard lock{mutex_};
      closed_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void add(std::unique_ptr<CUDAEvent> event, at::Tensor host, std::function<void(at::Tensor)> done) {
    {
      const std::lock_guard lock{mutex_};
      queue_.push_back({std::move(event), std::move(host), std::move(done)});
      open_ += 1;
    }
    changed_.notify_all();
  }

  /// Waits until no copy is under way, without calling back for copies that have not arrived yet.
  void forget() {
    std::unique_lock lock{mutex_};
    forgotten_ = true;
    changed_.wait(lock, [this] { return open_ == 0; });
    forgotten_ = false;
    problem_ = nullptr;
  }

  /// Waits until no copy is under way. Rethrows the first exception of a copy or its callback.
  void settle() {
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [this] { return open_ == 0; });
    if (auto problem = std::exchange(problem_, nullptr)) std::rethrow_exception(problem);
  }

 private:
  struct arrival {
    std::unique_ptr<CUDAEvent> event;
    at::Tensor host;
    std::function<void(at::Tensor)> done;
  };

  void run() {
    for (;;) {
      arrival next;
      {
        std::unique_lock lock{mutex_};
        changed_.wait(lock, [this] { return closed_ || !queue_.empty(); });
        if (queue_.empty()) return;
        next = std::move(queue_.front());
        queue_.pop_front();
      }
      std::exception_ptr problem;
      try {
        next.event->synchronize();
        if (wanted()) next.done(std::move(next.host));
      } catch (...) {
        problem = std::current_exception();
      }
      next = {};
      {
        const std::lock_guard lock{mutex_};
        if (problem && !problem_) problem_ = problem;
        open_ -= 1;
      }
      changed_.notify_all();
    }
  }

  bool wanted() {
    const std::lock_guard lock{mutex_};
    return !forgotten_;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<arrival> queue_;
  std::size_t open_{0};
  std::exception_ptr problem_;
  bool closed_{false}, forgotten_{false};
  std::thread thread_;  ///< Last, because it uses the other members.
};

class cuda_accelerator final : public accelerator {
 public:
  explicit cuda_accelerator(c10::Device where)
      : where_(where), compute_(stream_of(where)), inward_(stream_of(where)), outward_(stream_of(where)) {}

  c10::Device where() const override { return where_; }

  std::unique_ptr<scope> enter() override { return std::make_unique<cuda_scope>(compute_); }

  at::Tensor take(std::int64_t count) override {
    const CUDAStreamGuard on{compute_};
    return at::empty({count}, at::TensorOptions().dtype(at::kFloat).device(where_));
  }

  at::Tensor take_pinned(at::IntArrayRef sizes, at::ScalarType type) override {
    const c10::cuda::CUDAGuard on{where_};  // otherwise a thread of the loader would use the first device
    return at::empty(sizes, at::TensorOptions().dtype(type).pinned_memory(true));
  }

  at::Generator make_generator() override { return at::cuda::detail::createCUDAGenerator(where_.index()); }

  void upload(const at::Tensor& host, const at::Tensor& target) override {
    const CUDAStreamGuard on{compute_};
    target.copy_(in_pinned_memory(host), /*non_blocking=*/true);
  }

  arriving upload_ahead(const at::Tensor& host) override {
    // Allocated for the stream that writes it, because memory that another stream has released could still be in use.
    const CUDAStreamGuard on{inward_};
    auto copy = at::empty(host.sizes(), at::TensorOptions().dtype(host.dtype()).device(where_));
    copy.copy_(in_pinned_memory(host), /*non_blocking=*/true);
    return {std::move(copy), std::make_shared<cuda_mark>(inward_)};
  }

  at::Tensor download(const at::Tensor& values) override {
    const CUDAStreamGuard on{compute_};
    auto host = pinned_like(values);
    host.copy_(values, /*non_blocking=*/true);
    compute_.synchronize();
    return host;
  }

  void download_then(const at::Tensor& values, std::function<void(at::Tensor)> done) override {
    // Autograd's threads use the stream of the forward pass, so the mark follows the work that they have queued there.
    const cuda_mark computed{compute_};
    const CUDAStreamGuard on{outward_};
    computed.hold(values);
    auto host = pinned_like(values);
    host.copy_(values, /*non_blocking=*/true);
    auto copied = std::make_unique<CUDAEvent>(cudaEventDisableTiming | cudaEventBlockingSync);
    copied->record(outward_);
    arrivals_.add(std::move(copied), std::move(host), std::move(done));
  }

  std::shared_ptr<const mark> mark_now() override { return std::make_shared<cuda_mark>(compute_); }

  void forget() noexcept override { arrivals_.forget(); }

  void synchronise() override {
    compute_.synchronize();
    arrivals_.settle();
  }

 private:
  static CUDAStream stream_of(c10::Device where) {
    return c10::cuda::getStreamFromPool(/*isHighPriority=*/false, where.index());
  }

  c10::Device where_;
  CUDAStream compute_, inward_, outward_;
  arrivals arrivals_;
};

std::string version_text() {
  int version = 0;
  if (cudaRuntimeGetVersion(&version) != cudaSuccess) version = CUDART_VERSION;
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

census look() {
  census result{.compiled = true, .version = version_text(), .gpus = {}, .problem = {}};
  int count = 0;
  if (const auto code = cudaGetDeviceCount(&count); code != cudaSuccess) {
    result.problem = cudaGetErrorString(code);
    static_cast<void>(cudaGetLastError());  // clears the error, which LibTorch would mistake for its own
    return result;
  }
  for (int index = 0; index < count; ++index) {
    cudaDeviceProp about{};
    result.gpus.emplace_back(cudaGetDeviceProperties(&about, index) == cudaSuccess ? about.name : "unknown");
  }
  if (count == 0) result.problem = "no CUDA-capable device is detected";
  return result;
}

}  // namespace

const census& here() {
  static const census result = look();
  return result;
}

std::shared_ptr<const mark> mark_here(c10::Device where) {
  return std::make_shared<cuda_mark>(c10::cuda::getCurrentCUDAStream(where.index()));
}

std::shared_ptr<accelerator> open(c10::Device where) {
  // As on the CPU: float32 is not replaced by TF32, and algorithms are not chosen by measured speed.
  static const bool settled = [] {
    at::globalContext().setAllowTF32CuDNN(false);
    at::globalContext().setAllowTF32CuBLAS(false);
    at::globalContext().setBenchmarkCuDNN(false);
    at::globalContext().setDeterministicCuDNN(true);
    return true;
  }();
  static_cast<void>(settled);
  return std::make_shared<cuda_accelerator>(where);
}

}  // namespace troupe::device
