// What runs on a compute actor's lane: one copy of the network, its optimizer state, one worker's samples. No actor,
// no clock. One thread at a time.
#pragma once

#include "troupe/actors/device/device.hpp"
#include "troupe/actors/messages.hpp"
#include "troupe/actors/optimizer.hpp"
#include "troupe/actors/rules/schedule.hpp"
#include "troupe/data/augment.hpp"
#include "troupe/data/dataset.hpp"
#include "troupe/data/sampler.hpp"
#include "troupe/models/buffer_pool.hpp"
#include "troupe/models/flat.hpp"
#include "troupe/models/network.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

namespace troupe::data {
class loader_threads;
}

namespace troupe {

class shared_memory;

/// How the statistics of synchronised norms travel: an exchange in buckets, a forward one for each norm, in the order
/// of a pass, and then a backward one for each. Its steps are passes: one for each micro-batch.
struct norm_exchange {
  std::uint32_t place{0};        ///< Of the exchange.
  std::vector<range> buckets{};  ///< Where each lies in what is exchanged.
  std::int64_t total{0};         ///< Elements of what is exchanged.
  pass_count passes{};           ///< The same for every worker.
  /// Brings the own statistics, and returns the answer of their bucket when all workers have brought theirs. Throws
  /// where they never will. Null: norms are not synchronised.
  std::function<outcome(part own)> bring{};
};

struct replica_options {
  run_id run{};
  rank_id rank{};
  const models::network_kind* model{nullptr};
  models::network_shape shape;
  models::loss_kind loss{};
  models::flat_layout layout;
  models::buffer_pool pool;
  std::shared_ptr<const data::dataset> samples;
  data::normalisation scale;
  data::sampling sampling;
  optimizer_options optimizer;
  std::uint64_t seed{0};
  std::int64_t threads{1};        ///< Intra-op threads of the lane that runs it.
  std::int64_t micro_batches{1};  ///< Equal parts of a full batch whose gradients are computed one after the other.
  norm_exchange norms{};
  std::shared_ptr<device::accelerator> accelerator{};  ///< None: the CPU.
  std::shared_ptr<shared_memory> memory{};  ///< Where x is, with others who write it too; none: in the messages.
  std::int64_t local_steps{1};  ///< Made on a copy of it, before what has changed is added to it; 1: on x itself.
  std::vector<int> cores{};     ///< Of the machine, that its lane keeps to; none: any.
  std::uint64_t steps{std::numeric_limits<std::uint64_t>::max()};  ///< Of the run: no batch is made beyond them.
  data::augmentation augment{};
  std::shared_ptr<data::loader_threads> loading{};  ///< Who makes batches ahead; none: the lane, when it needs one.
  bool bfloat16{false};           ///< Forward passes under autocast, as PyTorch's; weights and gradients stay float32.
  bool stop_on_non_finite{true};  ///< A loss that is not finite is thrown; else the step is made.
};

/// Returns whether local steps update only the coordinates of their samples: a sparse model under SGD without momentum,
/// clipping, L2 penalty or parameters excluded from weight decay.
bool makes_sparse_steps(const models::network_kind& model, const optimizer_options& optimizer);

class replica {
 public:
  explicit replica(replica_options options);
  ~replica();

  /// Is given the buckets of a gradient that leaves, each once and as soon as it is there; by any thread, one at a
  /// time.
  using departures = std::function<void(part)>;

  /// Does what `request` asks for; stops after the step under way once `cancelled` is set.
  /// Throws std::runtime_error where the loss is not finite, and whatever LibTorch throws.
  advanced run(const advance& request, const std::atomic<bool>& cancelled, const departures& leave);

 private:
  struct parts;
  std::unique_ptr<parts> parts_;
};

}  // namespace troupe
