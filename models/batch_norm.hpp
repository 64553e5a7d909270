// Batch norm over images (Ioffe, Szegedy 2015), by the statistics of the own batch, with the bits of PyTorch's
// BatchNorm2d, or by those of a group of replicas, with the formulas of its SyncBatchNorm. Heavy: included by the .cpp
// files of models only.
#pragma once

#include "troupe/models/network.hpp"

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace troupe::models {

/// y = weight · (x − mean) / √(var + 1e-5) + bias for each channel. In training mean and biased var are the batch's (or
/// the group's), and the running statistics take a tenth of them, var unbiased; else they are the running statistics.
class BatchNorm2dImpl final : public torch::nn::Module {
 public:
  explicit BatchNorm2dImpl(std::int64_t channels);

  /// `input` [N, C, H, W], float32, or what autocast makes of it, which is then returned too. In training it throws
  /// std::invalid_argument where a channel has a single value in all, and what the group's mean throws; backward too.
  at::Tensor forward(const at::Tensor& input);

  /// Has training normalise by what `mean` makes of this layer, `layer` of the network. Null: by the own batch.
  void synchronise(group_mean mean, std::size_t layer);

  std::int64_t channels() const { return running_mean.size(0); }

  at::Tensor weight, bias;               ///< [C].
  at::Tensor running_mean, running_var;  ///< [C].
  at::Tensor num_batches_tracked;        ///< Scalar; int64 or, in a network, float32.

 private:
  struct group;

  std::shared_ptr<const group> group_;  ///< Null: the own batch.
};
TORCH_MODULE(BatchNorm2d);

/// Returns all batch norms below `module`, in order of registration.
std::vector<std::shared_ptr<BatchNorm2dImpl>> batch_norms_of(const torch::nn::Module& module);

}  // namespace troupe::models
