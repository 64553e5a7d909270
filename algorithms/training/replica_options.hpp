// What a replica is made from: the plan's choices for one worker.
#pragma once

#include "troupe/algorithms/device/device.hpp"
#include "troupe/algorithms/messages/messages.hpp"
#include "troupe/algorithms/rules/schedule.hpp"
#include "troupe/algorithms/support/trace.hpp"
#include "troupe/algorithms/training/optimizer.hpp"
#include "troupe/algorithms/training/trained_network.hpp"
#include "troupe/data/sampling/augment.hpp"
#include "troupe/data/sampling/sampler.hpp"
#include "troupe/data/sets/dataset.hpp"
#include "troupe/models/storage/buffer_pool.hpp"

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

namespace troupe::data {
class loader_threads;
}

namespace troupe::models {
class exclusive_lock;
}

namespace troupe {

class engine_pool;
class lock_order;
class shared_memory;

/// How the statistics of synchronised norms are exchanged: in buckets, one per norm for the forward pass in its order,
/// then one per norm for the backward pass. A step of this exchange is a pass, of which each micro-batch has one.
struct norm_exchange {
  std::uint32_t place{0};        ///< Index of the exchange.
  std::vector<range> buckets{};  ///< Range of each bucket in the exchanged tensor.
  std::int64_t total{0};         ///< Number of elements exchanged.
  pass_count passes{};           ///< Passes per step, equal for every worker.
  /// Contributes this worker's statistics and returns the answer of their bucket once all workers have contributed
  /// theirs. Throws if they never will. Null if norms are not synchronised. `computed` is the number of gradients that
  /// the request has computed by then.
  std::function<outcome(part own, double computed)> bring{};
};

struct replica_options : trained_network {
  run_id run{};
  rank_id rank{};
  models::buffer_pool pool{};
  std::shared_ptr<const data::dataset> samples{};
  data::sampling sampling{};
  optimizer_options optimizer{};
  /// Number of equal parts of a full batch whose gradients are computed one after the other.
  std::int64_t micro_batches{1};
  norm_exchange norms{};
  std::shared_ptr<device::accelerator> accelerator{};  ///< Device of the replica; null for the CPU.
  /// Shared memory that holds x and that other workers write concurrently; null if x is in the messages.
  std::shared_ptr<shared_memory> memory{};
  std::shared_ptr<models::exclusive_lock> memory_lock{};  ///< Replaces the memory's own lock; see memory_order.
  std::shared_ptr<lock_order> memory_order{};             ///< Replay only: the order in which the lock is acquired.
  /// Steps taken on a copy of x before the change is added to x; 1 for steps on x itself.
  std::int64_t local_steps{1};
  std::vector<int> cores{};  ///< Cores of the machine to which the lane is pinned; empty for any.
  /// Number of batches of the run; no batch beyond them is made in advance. Not used with a queue.
  std::uint64_t batches{std::numeric_limits<std::uint64_t>::max()};
  data::augmentation augment{};
  /// Threads that make batches ahead; null if the lane makes each batch when needed.
  std::shared_ptr<data::loader_threads> loading{};
  /// Engines that this replica shares with others; null for one of its own. Only on the CPU.
  std::shared_ptr<engine_pool> engines{};
  bool bfloat16{false};  ///< Run forward passes under autocast as in PyTorch; weights and gradients stay float32.
  /// Whether gradients and steps are computed. Otherwise gradients are zeros, parameters stay as they are, and losses
  /// are nan: for simulations of timing alone.
  bool computes{true};
  trace_track track{};            ///< Track of the lane if the run is traced; in times of the steady clock.
  bool stop_on_non_finite{true};  ///< Throw if a loss is not finite; otherwise the update is applied.
};

/// Returns whether local steps update only the coordinates of their samples: a sparse model under SGD without momentum,
/// clipping, L2 penalty or parameters excluded from weight decay.
bool makes_sparse_steps(const models::network_kind& model, const optimizer_options& optimizer);

/// Returns whether a replica with these options makes sparse steps where a request allows it.
bool has_sparse_steps(const replica_options& options);

}  // namespace troupe
