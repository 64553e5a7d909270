// A replacement for NCCL without a GPU: members exchange CPU tensors in memory. A call blocks its lane until all
// members have made it or it is aborted.
#pragma once

#include "troupe/algorithms/device/collective.hpp"

#include <ATen/ops/zeros_like.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace troupe::testing {

/// State shared by the members of one communicator.
struct fake_wire {
  explicit fake_wire(std::uint32_t members) : size(members) {}

  struct call {
    std::vector<std::pair<at::Tensor, std::int64_t>> brought;  ///< In the order of arrival: as with NCCL, not by rank.
    std::int64_t first{0};
  };

  std::uint32_t size;
  std::mutex mutex;
  std::condition_variable changed;
  std::uint32_t joined{0};
  std::string id;
  std::vector<call> calls;
};

class fake_collective final : public device::collective {
 public:
  explicit fake_collective(std::shared_ptr<fake_wire> wire) : wire_(std::move(wire)) {}

  void join(std::uint32_t rank, std::uint32_t size, const std::string& id) override {
    std::unique_lock lock{wire_->mutex};
    if (rank >= size || size != wire_->size || (wire_->joined > 0 && id != wire_->id))
      throw std::runtime_error("members of different communicators");
    wire_->id = id;
    wire_->joined += 1;
    wire_->changed.notify_all();
    wait(lock, [&] { return wire_->joined == wire_->size; });
  }

  span weighted_mean(const span& own, std::int64_t weight) override {
    std::unique_lock lock{wire_->mutex};
    const auto index = made_++;
    if (wire_->calls.size() <= index) wire_->calls.resize(index + 1);
    auto& mine = wire_->calls[index].brought;
    if (!mine.empty() && (mine.front().first.numel() != own.values.numel() || wire_->calls[index].first != own.first))
      throw std::runtime_error("members make their calls in different orders");
    wire_->calls[index].first = own.first;
    mine.emplace_back(own.values, weight);
    wire_->changed.notify_all();
    wait(lock, [&] { return wire_->calls[index].brought.size() == wire_->size; });
    auto sum = at::zeros_like(own.values);
    std::int64_t weights = 0;
    for (const auto& [values, of_one] : wire_->calls[index].brought) {
      sum.add_(values, of_one);
      weights += of_one;
    }
    return {own.first, sum.div_(weights)};
  }

  void abort() override {
    const std::lock_guard lock{wire_->mutex};
    aborted_ = true;
    wire_->changed.notify_all();
  }

 private:
  template <class Condition>
  void wait(std::unique_lock<std::mutex>& lock, Condition met) {
    wire_->changed.wait(lock, [&] { return aborted_ || met(); });
    if (aborted_) throw device::aborted("the communicator was aborted");
  }

  std::shared_ptr<fake_wire> wire_;
  std::size_t made_{0};
  bool aborted_{false};
};

}  // namespace troupe::testing
