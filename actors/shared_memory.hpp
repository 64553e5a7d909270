// Parameters that several workers read and write at once, with no lock on the way: Niu, Recht, Ré, Wright 2011,
// "Hogwild!". They lie in an anonymous file of the kernel's, so that other processes of the host can map it too; when
// the last of them is gone, so is it.
#pragma once

#include "troupe/actors/messages.hpp"
#include "troupe/models/buffer_pool.hpp"
#include "troupe/models/held_lock.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <pthread.h>
#include <vector>

namespace troupe {

namespace device {
class accelerator;
}

/// How x is written.
enum class memory_writes : std::uint8_t {
  plain,   ///< Read, add, write: of two workers that do so at once with a coordinate, one may be lost.
  atomic,  ///< Each coordinate's addition is indivisible, as the paper supposes: none is lost.
  locked,  ///< A worker reads all of x, or writes all of it, alone: what Hogwild is compared with.
};

/// Any thread, any process of the host.
class shared_memory {
 public:
  /// Makes one that begins as `initial` [P + B], of which the first `parameters` are P. `cores`: of the machine, near
  /// which it is to lie; none: anywhere. Throws std::system_error.
  static std::shared_ptr<shared_memory> make(const at::Tensor& initial, std::int64_t parameters, memory_writes how,
                                             const std::vector<int>& cores = {});

  /// Maps one of another process. Throws std::runtime_error where there is none of this size and kind.
  static std::shared_ptr<shared_memory> open(const memory_handle& where, std::int64_t total, std::int64_t parameters,
                                             memory_writes how);

  ~shared_memory();

  memory_handle handle() const;
  memory_writes how() const;

  /// Returns x itself, [P + B]: others write it meanwhile.
  at::Tensor values() const;

  /// Returns a copy of x: locked, of one moment; else each element as it is when it is reached.
  at::Tensor copy(models::buffer_pool& pool) const;

  /// Adds after − before to the elements of x from `first` on, as many as they are; a coordinate that is still as
  /// `before` becomes `after`, to the bit. Both are the caller's own.
  void move(const at::Tensor& before, const at::Tensor& after, std::int64_t first = 0);

  /// As move() from `taken` to `own`, all of x; then both are what x is, each element as it was when it was reached.
  void merge(at::Tensor& taken, at::Tensor& own);

  /// Held while x is read or written whole, if it is locked; else nobody holds it.
  pthread_mutex_t* lock() const;

  /// How many steps all have made.
  std::uint64_t updates() const;

  /// Counts `steps` more, made one after the other by a worker that read x when `seen` had been made: how stale each
  /// was is estimated by what others have made meanwhile, spread over them.
  void count(std::uint64_t steps, std::uint64_t seen);

  /// Counts `steps` that are added at once to x as it was when `seen` had been made: each is as stale as all.
  void count_at_once(std::uint64_t steps, std::uint64_t seen);
  staleness_tally staleness() const;

  /// Moves x to a device, once, for all who share it there. On one, only memory_writes::plain.
  void bring_to(device::accelerator& where);

 private:
  struct block;
  shared_memory();
  void tally(std::uint64_t steps, std::uint64_t of_each, std::uint64_t of_all);
  std::unique_ptr<block> block_;
};

}  // namespace troupe
