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

/// The number with which the server that keeps a memory takes the lock. Workers use their ranks.
constexpr std::uint32_t keeper_of_memory = 0xffff'ffff;

/// Grants the lock in the recorded order. Works only under the test coordinator, which runs one thread at a time.
class lock_order {
 public:
  explicit lock_order(std::shared_ptr<delivery_script> recorded) : script_(std::move(recorded)) {}

  /// Sets what is called when it is the keeper's turn.
  void on_keeper_due(std::function<void()> wake_keeper) { wake_keeper_ = std::move(wake_keeper); }

  /// Returns whether the worker or server with this number may take the lock now.
  bool is_due(std::uint32_t who) const {
    return !held_ && (script_->is_open() || (script_->due() && script_->due()->from == who));
  }

  /// Takes the lock, after waiting at `where` until it is due. Throws std::runtime_error if it will never be due.
  void take(std::uint32_t who, rendezvous* where);

  /// Releases the lock and wakes the next in order.
  void release();

  /// Wakes the keeper or the worker whose turn it is. Call it after the script was opened.
  void wake();

 private:
  std::shared_ptr<delivery_script> script_;
  std::function<void()> wake_keeper_;
  std::map<std::uint32_t, rendezvous*> waiting_;
  std::uint64_t taken_{0};  ///< How many of the acquisitions in a row that are due have been made.
  bool held_{false};
};

/// Returns a lock for the worker or server with this number. It waits at `where`, which is null for the keeper, because
/// the keeper takes the lock only when it is due.
std::shared_ptr<models::exclusive_lock> lock_in(std::shared_ptr<lock_order> order, std::uint32_t who,
                                                std::shared_ptr<rendezvous> where);

}  // namespace troupe
