// Batch norm (Ioffe, Szegedy 2015): either with the statistics of the replica's own batch, bit for bit as
// in PyTorch's batch norms, or with those of a group of replicas, by the formulas of SyncBatchNorm. Heavy: include it
// only in files that define modules.
#pragma once

#include "troupe/models/networks/network.hpp"

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace troupe::models {

/// The tensors [C] and the settings of a batch norm. Tensors that a layer does not have are undefined.
struct norm_settings {
  at::Tensor weight{};        ///< Scale γ.
  at::Tensor bias{};          ///< Shift β.
  at::Tensor running_mean{};  ///< Moving average of the means.
  at::Tensor running_var{};   ///< Moving average of the unbiased variances.
  double momentum{0.1};       ///< Share of the batch's statistics in the moving averages.
  double epsilon{1e-5};       ///< Number added to the variance.
};

/// A group of replicas that combine the statistics of a batch norm.
struct norm_group;

/// Returns the group whose statistics `mean` returns for the layer with the number `layer` in the network; null if
/// `mean` is null.
std::shared_ptr<const norm_group> make_norm_group(group_mean mean, std::size_t layer);

/// Normalises `input` [N, C, …], float32 or the type autocast chooses, as a batch norm does in training, and moves the
/// running statistics. The statistics are those of `group` or, if it is null, of `input`. Throws std::invalid_argument
/// if a channel has only a single value in total, and whatever the group's mean throws; so does backward.
at::Tensor normalise_in_training(const at::Tensor& input, const norm_settings& by, const norm_group* group);

/// y = weight · (x − mean) / √(var + 1e-5) + bias for each channel. In training, mean and biased var are those of the
/// batch (or of the group), and the running statistics move a tenth of the way towards them, with unbiased var;
/// otherwise the running statistics are used.
class BatchNorm2dImpl final : public torch::nn::Module {
 public:
  /// Makes a batch norm with weights of 1, biases of 0, and running statistics of 0 and 1.
  explicit BatchNorm2dImpl(std::int64_t channels);

  /// Normalises `input` [N, C, H, W], float32 or the type autocast chooses, which is then also returned. In training it
  /// throws as normalise_in_training() does.
  at::Tensor forward(const at::Tensor& input);

  /// Makes training use the statistics returned by `mean` for this layer, which has the number `layer` in the network.
  /// If `mean` is null, training uses the replica's own batch.
  void synchronise(group_mean mean, std::size_t layer);

  /// Returns the number of channels, C.
  std::int64_t channels() const { return running_mean.size(0); }

  at::Tensor weight;               ///< Scale γ, [C].
  at::Tensor bias;                 ///< Shift β, [C].
  at::Tensor running_mean;         ///< Moving average of the means, [C].
  at::Tensor running_var;          ///< Moving average of the unbiased variances, [C].
  at::Tensor num_batches_tracked;  ///< Scalar; int64 or, in a network, float32.

 private:
  std::shared_ptr<const norm_group> group_;  ///< Null: statistics of the replica's own batch.
};
TORCH_MODULE(BatchNorm2d);

/// Returns all batch norms below `module`, in order of registration.
std::vector<std::shared_ptr<BatchNorm2dImpl>> batch_norms_of(const torch::nn::Module& module);

}  // namespace troupe::models
