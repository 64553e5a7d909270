// Tensor links between nodes of one process, as a second implementation: a queue and a thread for each node.
#pragma once

#include "troupe/runtime/transport/links.hpp"

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace troupe::testing {

class memory_links final : public transport::tensor_links {
 public:
  /// State shared by the nodes.
  struct shared {
    explicit shared(std::size_t count) : nodes(count) {}
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<memory_links*> nodes;  ///< Open nodes; null for the others.
  };

  memory_links(std::uint32_t me, std::vector<control::node_ranks> ranks, std::shared_ptr<shared> all)
      : me_(me), ranks_(std::move(ranks)), all_(std::move(all)) {}

  ~memory_links() override {
    {
      const std::lock_guard lock{all_->mutex};
      ending_ = true;
      all_->nodes[me_] = nullptr;
      for (auto* other : all_->nodes)
        if (other) other->leave(me_, transport::closed_text);
    }
    all_->changed.notify_all();
    if (thread_.joinable()) thread_.join();
  }

  void open(listener listener) override {
    listener_ = std::move(listener);
    thread_ = std::thread{[this] { deliver(); }};
    const std::lock_guard lock{all_->mutex};
    all_->nodes[me_] = this;
    for (const auto* other : all_->nodes)
      if (!other) return;
    for (auto* other : all_->nodes) other->put([other] { other->listener_.linked(); });
  }

  void send_frame(std::uint32_t node, const transport::frame_header& header, const at::Tensor& values) override {
    const std::lock_guard lock{all_->mutex};
    auto* const to = all_->nodes.at(node);
    if (!to || !all_->nodes[me_] || lost_.contains(node)) return;
    to->put([this, node, to, header, values] {
      try {
        control::check_sender(header, to->ranks_, me_);
        to->listener_.arrived({.header = header, .values = values}, nullptr);
      } catch (const transport::frame_error& problem) {
        const std::lock_guard lock{all_->mutex};
        to->leave(me_, problem.what());
        if (auto* const from = all_->nodes[me_]) from->leave(node, transport::closed_text);
      }
    });
  }

 private:
  void put(std::function<void()> what) {
    waiting_.push_back(std::move(what));
    all_->changed.notify_all();
  }

  void leave(std::uint32_t node, std::string why) {
    if (lost_.insert(node).second) put([this, node, why = std::move(why)] { listener_.lost(node, why); });
  }

  void deliver() {
    std::unique_lock lock{all_->mutex};
    for (;;) {
      all_->changed.wait(lock, [this] { return ending_ || !waiting_.empty(); });
      if (ending_) return;
      const auto next = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      next();
      lock.lock();
    }
  }

  std::uint32_t me_;
  std::vector<control::node_ranks> ranks_;
  std::shared_ptr<shared> all_;
  listener listener_;
  std::deque<std::function<void()>> waiting_;
  std::set<std::uint32_t> lost_;
  bool ending_{false};
  std::thread thread_;
};

}  // namespace troupe::testing
