#include "troupe/algorithms/rules/missing_gradients.hpp"

#include <ATen/ops/stack.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>

namespace troupe::rules {

namespace {

bool is_negative_zero(float value) {
  return std::bit_cast<std::uint32_t>(value) == 0x80000000U;
}

std::vector<bool> missing_on_host(const at::Tensor& gradient, const std::vector<range>& tensors) {
  const std::span elements{gradient.const_data_ptr<float>(), static_cast<std::size_t>(gradient.numel())};
  std::vector<bool> missing;
  for (const auto& where : tensors) {
    const auto own = elements.subspan(static_cast<std::size_t>(where.first), static_cast<std::size_t>(where.count));
    missing.push_back(std::all_of(own.begin(), own.end(), is_negative_zero));
  }
  return missing;
}

/// Copies the results of all tensors to the host in one transfer.
std::vector<bool> missing_on_device(const at::Tensor& gradient, const std::vector<range>& tensors) {
  const auto marked = gradient.eq(0).logical_and_(gradient.signbit());
  std::vector<at::Tensor> flags;
  for (const auto& where : tensors) flags.push_back(marked.narrow(0, where.first, where.count).all());
  const auto missing = at::stack(flags).cpu();
  const auto* values = missing.const_data_ptr<bool>();
  return std::vector<bool>(values, values + missing.numel());
}

}  // namespace

void mark_missing(const at::Tensor& gradient, const range& tensor) {
  gradient.narrow(0, tensor.first, tensor.count).fill_(-0.0);
}

std::vector<bool> missing_in(const at::Tensor& gradient, const std::vector<range>& tensors) {
  if (tensors.empty()) return {};
  return gradient.is_cpu() ? missing_on_host(gradient, tensors) : missing_on_device(gradient, tensors);
}

}  // namespace troupe::rules
