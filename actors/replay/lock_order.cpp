#include "troupe/actors/replay/lock_order.hpp"

#include "troupe/algorithms/support/assert.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace troupe {

namespace {

class ordered_lock final : public models::exclusive_lock {
 public:
  ordered_lock(std::shared_ptr<lock_order> order, std::uint32_t who, std::shared_ptr<rendezvous> where)
      : order_(std::move(order)), who_(who), where_(std::move(where)) {}

  void lock() override { order_->take(who_, where_.get()); }
  void unlock() override { order_->release(); }

 private:
  std::shared_ptr<lock_order> order_;
  std::uint32_t who_;
  std::shared_ptr<rendezvous> where_;
};

}  // namespace

void lock_order::take(std::uint32_t who, rendezvous* where) {
  while (!is_due(who)) {
    TROUPE_ASSERT(where, "only workers wait for their turn");
    waiting_[who] = where;
    if (where->wait()) continue;
    waiting_.erase(who);
    throw std::runtime_error("the run ended while a worker was waiting for the shared parameters");
  }
  held_ = true;
  if (script_->is_open() || ++taken_ < script_->due()->step) return;
  script_->advance();
  taken_ = 0;
}

void lock_order::release() {
  held_ = false;
  wake();
}

void lock_order::wake() {
  const auto* due = script_->due();
  if (!script_->is_open() && due && due->from == keeper_of_memory) wake_keeper_();
  const auto next =
      std::find_if(waiting_.begin(), waiting_.end(), [&](const auto& waiter) { return is_due(waiter.first); });
  if (next == waiting_.end()) return;
  auto* where = next->second;
  waiting_.erase(next);
  where->resume();
}

std::shared_ptr<models::exclusive_lock> lock_in(std::shared_ptr<lock_order> order, std::uint32_t who,
                                                std::shared_ptr<rendezvous> where) {
  return std::make_shared<ordered_lock>(std::move(order), who, std::move(where));
}

}  // namespace troupe
