// How long the jobs of a simulation take, in virtual time: section [simulate] of the topology file.
#pragma once

#include "troupe/actors/wire/lane.hpp"
#include "troupe/data/sets/dataset.hpp"
#include "troupe/models/storage/buffer_pool.hpp"
#include "troupe/runtime/plan/plan.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace troupe::emulation {

/// Returns how many workers compute at the same time while a gradient is measured.
std::uint32_t lanes_at_work(const plan& plan);

/// Measures how long the gradient of a worker's batch takes on this machine. Returns the median of ten CPU times, each
/// the mean over 50 ms or over one gradient if that takes longer. At least 0.3 seconds and three gradients precede
/// them. With simulate.cores, all workers of a node compute at the same time, because they slow each other down; at
/// most four per core of this machine.
std::chrono::microseconds measure_gradient(const plan& plan, const data::dataset_pair& data, const at::Tensor& initial,
                                           models::buffer_pool pool);

/// The duration of each job. Jobs without a cost of their own, such as writing files, take no time.
class costs {
 public:
  /// `gradient` is the CPU time of one gradient; `seed` is the seed of its jitter.
  costs(const plan& plan, std::chrono::microseconds gradient, std::uint64_t seed);

  /// Returns the duration of a job on the lane of this actor.
  std::chrono::microseconds of(const actor_label& actor, const task& what);

 private:
  double gradient_, jitter_, bytes_per_second_, evaluation_;  ///< Times in seconds.
  std::uint64_t seed_;
  std::vector<std::uint64_t> gradients_;  ///< Number of gradients computed so far, by rank.
  double mean_batch_{0};  ///< Samples in the mean of batches of different sizes; 0 if all batches have the same size.
};

}  // namespace troupe::emulation
