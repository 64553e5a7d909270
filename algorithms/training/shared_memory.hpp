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

/// The memory. Safe to use from any thread and any process of the host; if it is locked, by whoever holds its lock.
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

  /// Returns x itself, [P + B], which others may write concurrently.
  at::Tensor values() const;

  /// Returns a copy of x, each element as it is when it is copied.
  at::Tensor copy(models::buffer_pool& pool) const;

  /// Adds after − before to the elements of x starting at `first`, as many as there are. A coordinate that still equals
  /// `before` becomes exactly `after`. The caller must own both tensors.
  void move(const at::Tensor& before, const at::Tensor& after, std::int64_t first = 0);

  /// Does move() from `taken` to `own` for all of x, then sets both to x, each element as it was when it was reached.
  void merge(at::Tensor& taken, at::Tensor& own);

  /// Returns the lock as `who`, a rank or keeper_of_memory, takes it; null unless x is locked. It must not outlive the
  /// memory.
  std::shared_ptr<models::exclusive_lock> lock_for(std::uint32_t who);

  /// From now on, whoever takes the lock, in any process, notes that. Called by the owner, before the first step.
  void note_acquisitions();

  /// Returns who has taken the lock since the last call, in order. Called by the owner, regularly: those who take the
  /// lock wait when there is no more room for their notes.
  std::vector<std::uint32_t> take_acquisitions();

  /// Returns the number of steps of all workers.
  std::uint64_t updates() const;

  /// Counts `steps` consecutive steps of a worker that read x when `seen` steps had been taken. The staleness of each
  /// is estimated from the steps of others in between, spread over them.
  void count(std::uint64_t steps, std::uint64_t seen);

  /// Counts `steps` that are added at once to x as it was when `seen` steps had been taken: each is as stale as the
  /// whole.
  void count_at_once(std::uint64_t steps, std::uint64_t seen);
  staleness_tally staleness() const;

  /// Sets x [P + B] and what has been counted, before the first step of any worker. Throws state_error if they do not
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
