#include "troupe/algorithms/training/optimizer.hpp"

#include "troupe/algorithms/training/optimizer_kinds.hpp"

#include <ATen/TensorOperators.h>

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

namespace troupe {

namespace {

/// Scales down a gradient that is too long, out of place, before the inner optimizer steps.
class clipping final : public optimizer {
 public:
  clipping(std::unique_ptr<optimizer> inner, double longest) : inner_(std::move(inner)), longest_(longest) {}

  void step(const at::Tensor& weights, const at::Tensor& gradient, double lr_scale, std::uint64_t completed) override {
    const auto scale = longest_ / (gradient.norm().item<double>() + 1e-6);
    // A norm of NaN makes all of the gradient NaN, as in PyTorch, rather than leaving it as it is.
    inner_->step(weights, scale >= 1 ? gradient : gradient * scale, lr_scale, completed);
  }

  state_dict state() const override { return inner_->state(); }
  void restore(const state_dict& saved) override { inner_->restore(saved); }

 private:
  std::unique_ptr<optimizer> inner_;
  double longest_;
};

std::vector<range> within(const std::vector<range>& ranges, const range& where) {
  std::vector<range> kept;
  for (const auto& candidate : ranges) {
    const auto first = std::max(candidate.first, where.first);
    const auto end = std::min(candidate.first + candidate.count, where.first + where.count);
    if (first < end) kept.push_back({first - where.first, end - first});
  }
  return kept;
}

}  // namespace

optimizer_options within(optimizer_options options, const range& where) {
  options.undecayed = within(options.undecayed, where);
  options.tensors = within(options.tensors, where);
  options.parameters = where.count;
  return options;
}

std::unique_ptr<optimizer> make_optimizer(const optimizer_options& options) {
  const auto* kind = find_optimizer(options.name);
  if (kind == nullptr) throw std::invalid_argument("unknown optimizer '" + options.name + "'");
  auto result = kind->make(options);
  if (!result) throw std::invalid_argument("it was not made");
  if (options.clip_norm) return std::make_unique<clipping>(std::move(result), *options.clip_norm);
  return result;
}

}  // namespace troupe
