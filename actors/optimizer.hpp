// The optimizers of LibTorch over flat storage: one tensor is all parameters.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace troupe {

struct optimizer_options {
  std::string name{"sgd"};
  double lr{0.01};
  double momentum{0};
  double weight_decay{0};
  bool nesterov{false};
  std::optional<double>
      clip_norm{};  ///< Longest gradient (Euclidean norm over all parameters); longer ones are scaled.
};

/// Its state (momentum) is that of the steps it has made. One thread at a time.
class optimizer {
 public:
  virtual ~optimizer() = default;

  /// Changes `weights` [P] in place by one step along `gradient` [P]. `weights` may be another tensor each time: the
  /// state follows the position, not the memory. SGD is PyTorch's: v ← μv + g + λp; p ← p − γv; with
  /// clip_norm, g is first scaled as PyTorch's clip_grad_norm_ does, out of place: it may be everybody's.
  virtual void step(const at::Tensor& weights, const at::Tensor& gradient, double lr_scale) = 0;
};

/// Throws std::invalid_argument for an unknown name.
std::unique_ptr<optimizer> make_optimizer(const optimizer_options& options);

}  // namespace troupe
