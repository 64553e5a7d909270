// Parameters that several workers read and write concurrently without a lock: Niu, Recht, Ré, Wright 2011, "Hogwild!".
// They are stored in an anonymous kernel file that other processes of the host can map too; it disappears when the last
// of them ends.
#pragma once

#include "troupe/algorithms/messages/messages.hpp"
#include "troupe/algorithms/messages/state_dict.hpp"
#include "troupe/algorithms/support/memory_writes.hpp"
#include "troupe/models/storage/buffer_pool.hpp"
#include "troupe/models/storage/held_lock.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace troupe {

namespace device {
class accelerator;
}

/// The memory. Safe to use from any thread and any process of the host. If its writes are memory_writes::locked, only
/// the holder of its lock may use it.
class shared_memory {
 public:
  /// Makes a memory with the initial values `initial` [P + B], of which the first `parameters` are P. `cores` are the
  /// machine's cores near which it is placed; empty for no preference. Throws std::system_error.
  static std::shared_ptr<shared_memory> make(const at::Tensor& initial, std::int64_t parameters, memory_writes how,
                                             const std::vector<int>& cores = {});

  /// Maps a memory of another process. Throws std::runtime_error if there is none of this size and kind.
  static std::shared_ptr<shared_memory> open(const memory_handle& where, std::int64_t total, std::int64_t parameters,
                                             memory_writes how);

  ~shared_memory();

  memory_handle handle() const;
  memory_writes how() const;

  /// Returns x itself, [P + B], which other workers may write concurrently.
  at::Tensor values() const;

  /// Returns a copy of x. Each element has the value at the time when that element is copied.
  at::Tensor copy(models::buffer_pool& pool) const;

  /// Adds after − before to the after.numel() elements of x from `first` on. A coordinate that still equals `before`
  /// becomes exactly `after`. The caller must own both tensors.
  void move(const at::Tensor& before, const at::Tensor& after, std::int64_t first = 0);

  /// Does move() from `taken` to `own` for all of x and sets both tensors to x. Each element of them has the value of x
  /// at the time when it was moved.
  void merge(at::Tensor& taken, at::Tensor& own);

  /// Returns the lock for `who`, which is a rank or keeper_of_memory; null unless x is locked. The lock must not
  /// outlive the memory.
  std::shared_ptr<models::exclusive_lock> lock_for(std::uint32_t who);

  /// Makes every acquisition of the lock, in any process, leave a note. Called by the owner before the first step.
  void note_acquisitions();

  /// Returns the numbers given to lock_for() by the acquirers of the lock since the last call, in order. The owner must
  /// call it regularly: acquiring the lock blocks while there is no room for another note.
  std::vector<std::uint32_t> take_acquisitions();

  /// Returns the number of steps of all workers.
  std::uint64_t updates() const;

  /// Counts `steps` consecutive steps of a worker that read x when `seen` steps had been taken. The staleness of each
  /// is estimated: the steps of other workers in between, spread evenly over `steps`.
  void count(std::uint64_t steps, std::uint64_t seen);

  /// Counts `steps` steps that were made from x as of `seen` steps and are added to x at once: all have the same
  /// staleness.
  void count_at_once(std::uint64_t steps, std::uint64_t seen);
  staleness_tally staleness() const;

  /// Sets x [P + B] and the counters, before the first step of any worker. Throws state_error if they do not
  /// fit.
  void restore(const at::Tensor& values, std::uint64_t updates, const staleness_tally& staleness);

  /// Moves x to a device, once, for all workers that share it there. Requires memory_writes::plain.
  void bring_to(device::accelerator& where);

 private:
  struct block;
  shared_memory();
  void tally(std::uint64_t steps, std::uint64_t of_each, std::uint64_t of_all);
  std::unique_ptr<block> block_;
};

}  // namespace troupe
