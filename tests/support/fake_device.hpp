// A replacement for a GPU: "device" memory is CPU memory, and the work of the stream is done immediately, but
// concurrent copies are delayed. The destination of such a copy contains NaN until the copy is made, and copies are
// made in an order drawn from a seed. This detects code that does not wait or that writes what is still being read.
#pragma once

#include "troupe/algorithms/device/device.hpp"
#include "troupe/data/random/random.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

namespace troupe::testing {

class fake_accelerator : public device::accelerator {
 public:
  explicit fake_accelerator(std::uint64_t seed) : random_(seed) {}

  struct counts {
    std::uint64_t uploads{0}, ahead{0}, downloads{0}, later{0}, pinned{0};
  };
  counts made() const {
    const std::lock_guard lock{mutex_};
    return made_;
  }

  c10::Device where() const override { return c10::Device{c10::kCPU}; }

  std::unique_ptr<scope> enter() override {
    struct inside final : scope {
      explicit inside(bool& flag) : flag_(flag) { flag_ = true; }
      ~inside() override { flag_ = false; }
      bool& flag_;
    };
    return std::make_unique<inside>(entered_);
  }

  at::Tensor take(std::int64_t count) override {
    return at::empty({count}).fill_(std::numeric_limits<float>::quiet_NaN());
  }

  at::Tensor take_pinned(at::IntArrayRef sizes, at::ScalarType type) override {
    const std::lock_guard lock{mutex_};
    made_.pinned += 1;
    return at::empty(sizes, at::dtype(type));
  }

  at::Generator make_generator() override { return at::detail::createCPUGenerator(); }

  void upload(const at::Tensor& host, const at::Tensor& target) override {
    inside("upload");
    made_.uploads += 1;
    target.copy_(host);
  }

  device::arriving upload_ahead(const at::Tensor& host) override {
    made_.ahead += 1;
    auto there = at::empty_like(host);
    if (there.is_floating_point())
      there.fill_(std::numeric_limits<float>::quiet_NaN());
    else
      there.fill_(-1);  // no class
    const auto before = host.clone();
    return {there, std::make_shared<late_mark>([host, there, before] {
              if (!host.equal(before)) throw std::logic_error("written while it is being copied");
              there.copy_(host);
            })};
  }

  at::Tensor download(const at::Tensor& values) override {
    inside("download");
    made_.downloads += 1;
    return values.clone();
  }

  void download_then(const at::Tensor& values, std::function<void(at::Tensor)> done) override {
    const std::lock_guard lock{mutex_};
    made_.later += 1;
    under_way_.push_back({values, values.clone(), at::empty_like(values), std::move(done)});
    under_way_.back().host.fill_(std::numeric_limits<float>::quiet_NaN());
    // Some of the copies under way complete now, in any order. Their owners are notified in the order of the calls.
    for (auto& each : under_way_)
      if (random_.below(2) == 0) arrive(each);
    deliver();
  }

  std::shared_ptr<const device::mark> mark_now() override {
    return std::make_shared<late_mark>([] {});
  }

  void forget() noexcept override {
    const std::lock_guard lock{mutex_};
    under_way_.clear();
  }

  void synchronise() override {
    const std::lock_guard lock{mutex_};
    for (auto& each : under_way_) arrive(each);
    deliver();
  }

 private:
  class late_mark final : public device::mark {
   public:
    explicit late_mark(std::function<void()> happen) : happen_(std::move(happen)) {}
    void hold(const at::Tensor&) const override {
      if (happen_) std::exchange(happen_, nullptr)();
    }

   private:
    mutable std::function<void()> happen_;
  };

  struct copy {
    at::Tensor device, as_it_was, host;
    std::function<void(at::Tensor)> done;
    bool arrived{false};
  };

  static void arrive(copy& one) {
    if (one.arrived) return;
    if (!one.device.equal(one.as_it_was)) throw std::logic_error("written while it is being copied");
    one.host.copy_(one.device);
    one.arrived = true;
  }

  void deliver() {
    while (!under_way_.empty() && under_way_.front().arrived) {
      auto first = std::move(under_way_.front());
      under_way_.erase(under_way_.begin());
      first.done(std::move(first.host));
    }
  }

  void inside(const char* what) const {
    if (!entered_) throw std::logic_error(std::string{what} + " outside of the stream's scope");
  }

  mutable std::mutex mutex_;
  data::random_stream random_;
  counts made_;
  std::vector<copy> under_way_;
  bool entered_{false};
};

}  // namespace troupe::testing
