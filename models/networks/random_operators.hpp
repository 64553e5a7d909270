// PyTorch's random operators with a generator of the caller's, which LibTorch's own do not accept. If it is undefined,
// they draw from the generator of the process.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>

namespace troupe::models {

/// What is drawn once and used for all values of it: each value, or each channel of a sample [N, C, …].
enum class drop_unit : std::uint8_t { value, channel };

/// Zeroes each value (or channel) of `input` with probability p, 0 <= p <= 1, and scales the others by 1/(1 − p).
/// Equals torch.nn.functional.dropout() and dropout2d().
at::Tensor dropout(const at::Tensor& input, double p, const at::Generator& generator,
                   drop_unit unit = drop_unit::value);

/// Sets each value (or channel) of `input` with probability p, 0 <= p <= 1, to the limit of SELU, and scales and shifts
/// all of them so that mean and variance stay. Equals torch.nn.functional.alpha_dropout() and
/// feature_alpha_dropout() (Klambauer et al. 2017, section 3).
at::Tensor alpha_dropout(const at::Tensor& input, double p, const at::Generator& generator,
                         drop_unit unit = drop_unit::value);

/// Arguments of scaled_dot_product_attention() other than the tensors that it attends to.
struct attention_options {
  std::optional<at::Tensor> mask{};  ///< Boolean (true: attend) or added to the scores; [..., L, S] after broadcasting.
  double p{0};                       ///< Probability with which a weight is dropped.
  bool causal{false};                ///< Each position attends to itself and to those before it.
  std::optional<double> scale{};     ///< Factor of the scores; 1/√E by default.
  bool grouped{false};               ///< Queries have a multiple of the heads of keys and values.
};

/// Returns softmax(query · keyᵀ · scale) · value, [..., L, Ev], for `query` [..., L, E], `key` [..., S, E] and `value`
/// [..., S, Ev], with dropout() of the softmax (Vaswani et al. 2017, section 3.2.1).
at::Tensor attention(const at::Tensor& query, at::Tensor key, at::Tensor value, const attention_options& how,
                     const at::Generator& generator);

}  // namespace troupe::models
