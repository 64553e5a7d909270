// A torch::nn::Module as a network. Heavy: included by the .cpp files of models only.
#pragma once

#include "troupe/models/network.hpp"

#include <torch/nn/module.h>

#include <memory>
#include <string>

namespace troupe::models {

/// A module whose random operators draw from a generator of its own, with the arithmetic of PyTorch's.
class random_module : public torch::nn::Module {
 public:
  /// As network::forward().
  virtual at::Tensor forward(const at::Tensor& input) = 0;

  void draw_from(at::Generator generator) { generator_ = std::move(generator); }

  /// See network::draw_weights(). Override it if some linear layers are not torch::nn::Linear.
  virtual void draw_weights(const normal_initializer& how);

 protected:
  /// Zeroes each element with probability p and scales the rest by 1/(1 − p), 0 <= p < 1; as it is when not training.
  at::Tensor dropout(const at::Tensor& input, double p);

  /// As dropout(), for whole channels of `input` [N, C, H, W].
  at::Tensor dropout2d(const at::Tensor& input, double p);

 private:
  at::Generator generator_;  ///< Undefined: the generator of the process.
};

/// Wraps a module; `module` is the network's from here on. Its batch norms must be registered in the order in which its
/// forward pass meets them. Scalar int64 buffers become float32 that count.
std::unique_ptr<network> as_network(std::shared_ptr<random_module> module, loss_kind loss);

/// Throws std::invalid_argument, naming the model, unless samples are [C, H, W] with H and W at least `least`, and
/// there is at least one class.
void require_images(const std::string& model, const network_shape& shape, std::int64_t least);

/// Throws std::invalid_argument, naming the model, unless a batch has floating-point numbers, dense.
void require_numbers(const std::string& model, const at::Tensor& input);

/// Throws std::invalid_argument, naming the model, unless a batch has characters [N, T], int64.
void require_characters(const std::string& model, const at::Tensor& input);

/// Returns what samples are like, for messages: "samples of 1 x 28 x 28 and 10 classes".
std::string given(const network_shape& shape);

/// Throws std::invalid_argument, naming the model and what it `takes`, unless samples have `dimensions` of at least 1
/// and there are as many classes.
void require_sparse(const std::string& model, const network_shape& shape, const std::string& takes,
                    std::size_t dimensions, std::int64_t classes);

}  // namespace troupe::models
