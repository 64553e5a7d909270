// Modules of LibTorch as networks. Heavy: include it only in files that define modules.
#pragma once

#include "troupe/models/networks/network.hpp"

#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace troupe::models {

/// A module whose random operators draw from its own generator, with PyTorch's arithmetic.
class random_module : public torch::nn::Module {
 public:
  /// See network::forward().
  virtual at::Tensor forward(const at::Tensor& input) = 0;

  /// See network::draw_from().
  void draw_from(at::Generator generator) { generator_ = std::move(generator); }

  /// See network::draw_weights(). Override it if some linear layers are not torch::nn::Linear.
  virtual void draw_weights(const normal_initializer& how);

 protected:
  /// Zeroes each element with probability p and scales the rest by 1/(1 − p), 0 <= p < 1; returns `input` unchanged
  /// when not training.
  at::Tensor dropout(const at::Tensor& input, double p);

  /// Applies dropout() to whole channels of `input` [N, C, H, W].
  at::Tensor dropout2d(const at::Tensor& input, double p);

  /// Returns the generator that random operators draw from.
  const at::Generator& generator() const { return generator_; }

 private:
  at::Generator generator_;  ///< Generator; undefined for the process-wide one.
};

/// Wraps a module of this project, as as_network() wraps those of others.
std::unique_ptr<network> as_built_in(std::shared_ptr<random_module> module, const loss_function& loss);

/// Wraps a module of a program or plug-in, which belongs to the network from then on. `forward` computes
/// network::forward() with it, and `loss` is used unless the topology file sets model.loss. Parameters and buffers have
/// the names of the module's state dict.
///
/// - Parameters must be float32. Those that do not require a gradient are kept like buffers. Scalar int64 buffers
/// become
///   float32 counters.
/// - LibTorch's own dropout draws from the generator of the process, so that two runs differ. A module derived from
///   random_module has a dropout() that draws from its worker's generator.
/// - model.sync_batch_norm synchronises BatchNorm2d of this namespace, which must be registered in the order in which
///   forward() reaches them; those of LibTorch keep the statistics of their own batch.
///
/// Throws std::invalid_argument if `module` is null, or naming the parameter if one is not float32.
std::unique_ptr<network> as_network(std::shared_ptr<torch::nn::Module> module,
                                    std::function<at::Tensor(const at::Tensor&)> forward, const loss_function& loss);

/// Wraps a module with a function forward(at::Tensor). For a holder that TORCH_MODULE defines, pass net.ptr().
template <class Module>
std::unique_ptr<network> as_network(std::shared_ptr<Module> module, const loss_function& loss = {}) {
  auto* const called = module.get();
  return as_network(
      std::move(module), [called](const at::Tensor& input) { return called->forward(input); }, loss);
}

/// Throws std::invalid_argument, naming the model, unless samples are [C, H, W] with H and W at least `least` and there
/// is at least one class.
void require_images(const std::string& model, const network_shape& shape, std::int64_t least);

/// Throws std::invalid_argument, naming the model, unless a batch has dense floating-point numbers.
void require_numbers(const std::string& model, const at::Tensor& input);

/// Throws std::invalid_argument, naming the model, unless a batch has characters [N, T], int64.
void require_characters(const std::string& model, const at::Tensor& input);

/// Returns a description of the samples for messages: "samples of 1 x 28 x 28 and 10 classes".
std::string given(const network_shape& shape);

/// Throws std::invalid_argument, naming the model and what it `takes`, unless samples have `dimensions` dimensions of
/// at least 1 and there are `classes` classes.
void require_sparse(const std::string& model, const network_shape& shape, const std::string& takes,
                    std::size_t dimensions, std::int64_t classes);

}  // namespace troupe::models
