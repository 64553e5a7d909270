#include "troupe/algorithms/training/optimizer.hpp"

#include "troupe/algorithms/rules/missing_gradients.hpp"
#include "troupe/algorithms/training/optimizer_kinds.hpp"

#include <ATen/TensorOperators.h>
#include <c10/core/GradMode.h>

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

/// Restores the tensors that have no gradient, and their part of the state, after a step of an optimizer that does not
/// know of them.
class skipping final : public optimizer {
 public:
  skipping(std::unique_ptr<optimizer> inner, std::vector<range> tensors)
      : inner_(std::move(inner)), tensors_(std::move(tensors)) {}

  void step(const at::Tensor& weights, const at::Tensor& gradient, double lr_scale, std::uint64_t completed) override {
    const auto missing = rules::missing_in(gradient, tensors_);
    if (std::find(missing.begin(), missing.end(), true) == missing.end())
      return inner_->step(weights, gradient, lr_scale, completed);
    const c10::NoGradGuard unrecorded;
    const auto old_weights = weights.clone();
    const auto old_state = inner_->state();
    inner_->step(weights, gradient, lr_scale, completed);
    const auto put_back = [&](const at::Tensor& values, const at::Tensor& before) {
      for (std::size_t i = 0; i < tensors_.size(); ++i) {
        if (!missing[i]) continue;
        const auto part = values.narrow(0, tensors_[i].first, tensors_[i].count);
        before.defined() ? part.copy_(before.narrow(0, tensors_[i].first, tensors_[i].count)) : part.zero_();
      }
    };
    put_back(weights, old_weights);
    state_dict state;
    const auto new_state = inner_->state();
    for (const auto& [name, values] : new_state.entries()) {
      const auto covers_all = values.scalar_type() == at::kFloat && values.numel() == weights.numel();
      const auto own = covers_all ? values.clone() : values;
      if (covers_all) put_back(own, old_state.has(name) ? old_state.tensor(name) : at::Tensor());
      state.put(name, own);
    }
    inner_->restore(state);
  }

  state_dict state() const override { return inner_->state(); }
  void restore(const state_dict& saved) override { inner_->restore(saved); }

 private:
  std::unique_ptr<optimizer> inner_;
  std::vector<range> tensors_;
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
  if (!result) throw std::invalid_argument("the function `make` of \"" + options.name + "\" returned no optimizer");
  if (!kind->skips_tensors && !options.tensors.empty())
    result = std::make_unique<skipping>(std::move(result), options.tensors);
  if (options.clip_norm) return std::make_unique<clipping>(std::move(result), *options.clip_norm);
  return result;
}

}  // namespace troupe
