// Batch norm over images (Ioffe, Szegedy 2015): either with the statistics of the replica's own batch, bit for bit as
// in PyTorch's BatchNorm2d, or with those of a group of replicas, by the formulas of SyncBatchNorm. Heavy: include it
// only in the .cpp files of models.
#pragma once

#include "troupe/models/networks/network.hpp"

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace troupe::models {

/// y = weight · (x − mean) / √(var + 1e-5) + bias for each channel. In training, mean and biased var are those of the
/// batch (or of the group), and the running statistics move a tenth of the way towards them, with unbiased var;
/// otherwise the running statistics are used.
class BatchNorm2dImpl final : public torch::nn::Module {
 public:
  explicit BatchNorm2dImpl(std::int64_t channels);

  /// Normalises `input` [N, C, H, W], float32 or the type autocast chooses, which is then also returned. In training it
  /// throws std::invalid_argument if a channel has only a single value in total, and whatever the group's mean throws;
  /// so does backward.
  at::Tensor forward(const at::Tensor& input);

  /// Makes training use the statistics returned by `mean` for this layer, which has the number `layer` in the network.
  /// If `mean` is null, training uses the replica's own batch.
  void synchronise(group_mean mean, std::size_t layer);

  std::int64_t channels() const { return running_mean.size(0); }

  at::Tensor weight, bias;               ///< [C].
  at::Tensor running_mean, running_var;  ///< [C].
  at::Tensor num_batches_tracked;        ///< Scalar; int64 or, in a network, float32.

 private:
  struct group;

  std::shared_ptr<const group> group_;  ///< Null: statistics of the replica's own batch.
};
TORCH_MODULE(BatchNorm2d);

/// Returns all batch norms below `module`, in order of registration.
std::vector<std::shared_ptr<BatchNorm2dImpl>> batch_norms_of(const torch::nn::Module& module);

}  // namespace troupe::models
