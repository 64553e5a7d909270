// A network on its device, with which any worker of the same plan can compute gradients. It keeps no state of a worker
// between two calls; that state is in worker_training.hpp.
#pragma once

#include "troupe/algorithms/training/bucket_watch.hpp"
#include "troupe/algorithms/training/placement.hpp"
#include "troupe/algorithms/training/replica_options.hpp"

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace troupe {

/// One thread at a time. Must not move, because the network calls back into it.
class engine {
 public:
  explicit engine(const replica_options& options);
  engine(const engine&) = delete;
  engine& operator=(const engine&) = delete;

  /// Makes the next passes use the weights `x` [P + B], add gradients to `gradient` [P], and draw random numbers from
  /// `seed`.
  void bind(const at::Tensor& x, const at::Tensor& gradient, std::uint64_t seed);

  /// Marks in `gradient` the tensors to which no backward pass since bind() has added anything; see
  /// rules/missing_gradients.hpp. Does nothing if the optimizer's options have no tensors.
  void mark_missing(const at::Tensor& gradient) const;

  /// Returns the output of a forward pass in training, float32.
  at::Tensor forward(const at::Tensor& inputs);

  /// Returns the watch over these buckets. Each backward pass reports to the watch returned last.
  bucket_watch& watch(const std::shared_ptr<const std::vector<range>>& buckets);

  /// Combines the statistics of synchronised norms for the passes that follow; see models::network::synchronise().
  models::group_mean combine{};

  placement where;

 private:
  void watch_passes();

  models::flat_layout layout_;
  bool bfloat16_;
  std::unique_ptr<models::network> network_;
  at::Generator dropout_;
  bool is_watched_{false};          ///< Whether backward passes report each complete gradient.
  std::vector<char> has_gradient_;  ///< By parameter: whether it has one since bind(); empty if not needed.
  std::shared_ptr<const std::vector<range>> watched_;  ///< The buckets for which watch_ was made.
  std::optional<bucket_watch> watch_;
};

/// Engines that the replicas of a simulation share: each has one only while it runs. One thread at a time.
class engine_pool {
 public:
  /// Returns an engine that is not in use, made from `options` if there is none. All replicas must have the same
  /// options except those that belong to one worker.
  std::unique_ptr<engine> take(const replica_options& options);

  /// Takes an engine back.
  void put_back(std::unique_ptr<engine> one) { free_.push_back(std::move(one)); }

 private:
  std::vector<std::unique_ptr<engine>> free_;
};

}  // namespace troupe
