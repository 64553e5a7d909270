// The order in which the lock of a shared memory is taken in a replay.
#pragma once

#include "troupe/actors/replay/deliveries.hpp"
#include "troupe/actors/wire/lane.hpp"
#include "troupe/models/storage/held_lock.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

namespace troupe {

/// The number under which the server that keeps a memory takes its lock; workers have their ranks.
constexpr std::uint32_t keeper_of_memory = 0xffff'ffff;

/// Grants the lock in the recorded order. Only under the test coordinator: one thread runs at a time.
class lock_order {
 public:
  explicit lock_order(std::shared_ptr<delivery_script> recorded) : script_(std::move(recorded)) {}

  /// Sets what is called when it is the keeper's turn.
  void on_keeper_due(std::function<void()> wake_keeper) { wake_keeper_ = std::move(wake_keeper); }

  /// Returns whether `who` may take the lock now.
  bool is_due(std::uint32_t who) const {
    return !held_ && (script_->is_open() || (script_->due() && script_->due()->from == who));
  }

  /// Waits at `where` until it is the turn of `who`. Throws std::runtime_error if that will never be.
  void take(std::uint32_t who, rendezvous* where);

  /// Passes the lock on.
  void release();

  /// Continues with those that wait, after the script was opened.
  void wake();

 private:
  std::shared_ptr<delivery_script> script_;
  std::function<void()> wake_keeper_;
  std::map<std::uint32_t, rendezvous*> waiting_;
  std::uint64_t taken_{0};  ///< Of the acquisitions in a row that are due.
  bool held_{false};
};

/// Returns the lock as `who` takes it, which waits at `where`: null for the keeper, which comes only when it is due.
std::shared_ptr<models::exclusive_lock> lock_in(std::shared_ptr<lock_order> order, std::uint32_t who,
                                                std::shared_ptr<rendezvous> where);

}  // namespace troupe
