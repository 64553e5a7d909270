#include "troupe/models/networks/random_operators.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_safe_softmax.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

namespace troupe::models {

namespace {

// Returns ones and, with probability p, zeros.
at::Tensor kept(const at::Tensor& input, double p, const at::Generator& generator, drop_unit unit) {
  if (unit == drop_unit::value) return at::empty_like(input).bernoulli_(1 - p, generator);
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(input.dim()), 1);
  for (std::size_t i = 0; i < 2 && i < sizes.size(); ++i) sizes[i] = input.size(static_cast<std::int64_t>(i));
  return at::empty(sizes, input.options()).bernoulli_(1 - p, generator);
}

}  // namespace

// This follows ATen's _dropout_impl (native/Dropout.cpp), as does alpha_dropout().
at::Tensor dropout(const at::Tensor& input, double p, const at::Generator& generator, drop_unit unit) {
  if (p == 0) return input;
  if (p == 1) return input * at::zeros({}, input.options());
  return input * kept(input, p, generator, unit).div_(1 - p);
}

at::Tensor alpha_dropout(const at::Tensor& input, double p, const at::Generator& generator, drop_unit unit) {
  if (p == 0) return input;
  if (p == 1) return input * at::zeros({}, input.options());
  constexpr double limit = 1.7580993408473766;
  const double scale = 1 / std::sqrt((limit * limit * p + 1) * (1 - p));
  const auto noise = kept(input, p, generator, unit);
  const auto shift = (noise - 1).mul_(limit * scale).add_(limit * scale * p);
  return input * (noise * scale) + shift;
}

at::Tensor attention(const at::Tensor& query, at::Tensor key, at::Tensor value, const attention_options& how,
                     const at::Generator& generator) {
  if (how.grouped) {
    if (key.size(-3) == 0 || value.size(-3) == 0)
      throw std::invalid_argument("attention to keys or values without heads");
    key = key.repeat_interleave(query.size(-3) / key.size(-3), -3);
    value = value.repeat_interleave(query.size(-3) / value.size(-3), -3);
  }
  constexpr auto nothing = -std::numeric_limits<double>::infinity();
  auto scores = at::matmul(query, key.transpose(-2, -1));
  scores = how.scale ? scores * *how.scale : scores / std::sqrt(static_cast<double>(query.size(-1)));
  if (how.causal) {
    const auto ahead = at::ones({query.size(-2), key.size(-2)}, query.options().dtype(at::kBool)).triu_(1);
    scores = scores.masked_fill(ahead, nothing);
  }
  if (how.mask)
    scores = how.mask->scalar_type() == at::kBool ? scores.masked_fill(how.mask->logical_not(), nothing)
                                                  : scores + *how.mask;
  // A mask can leave nothing that a position attends to.
  const auto weights = how.mask ? at::_safe_softmax(scores, -1) : at::softmax(scores, -1);
  return at::matmul(dropout(weights, how.p, generator), value);
}

}  // namespace troupe::models
