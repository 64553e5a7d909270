#include "troupe/algorithms/training/novograd.hpp"

#include "troupe/algorithms/rules/missing_gradients.hpp"
#include "troupe/algorithms/training/optimizer_kinds.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <vector>

namespace troupe {

namespace {

class novograd final : public optimizer {
 public:
  explicit novograd(const optimizer_options& options) : options_(options), betas_(betas_of(options, 0.95, 0)) {}

  void step(const at::Tensor& weights, const at::Tensor& gradient, double lr_scale, std::uint64_t completed) override {
    const c10::NoGradGuard no_gradients;
    const auto missing = rules::missing_in(gradient, options_.tensors);
    const auto some_missing = std::find(missing.begin(), missing.end(), true) != missing.end();
    const auto some_waiting = std::find(waits_.begin(), waits_.end(), true) != waits_.end();
    if (some_missing || some_waiting) return step_some(weights, gradient, missing, lr_scale, completed);
    const auto first = !v_.defined();
    if (!first) follow(weights);
    const auto [beta_1, beta_2] = betas_;
    const auto squares = squares_of(gradient);
    v_ = first ? squares : at::where(v_.eq(0), squares, v_ * beta_2 + squares * (1 - beta_2));
    const auto scales = (v_.sqrt() + options_.eps).reciprocal();
    auto direction = decay_of(weights);
    for (std::size_t i = 0; i < options_.tensors.size(); ++i)
      part_of(direction, i).addcmul_(part_of(gradient, i), scales[static_cast<std::int64_t>(i)]);
    const auto share = options_.grad_averaging ? 1 - beta_1 : 1;
    if (first)
      m_ = options_.starts_at_gradient ? direction : direction * share;
    else
      m_.mul_(beta_1).add_(direction, share);
    at::Tensor(weights).sub_(m_, options_.schedule.rate(options_.lr, completed) * lr_scale);
  }

  state_dict state() const override {
    state_dict saved;
    if (!v_.defined()) return saved;
    saved.put("exp_avg", m_.to(at::kCPU, at::kFloat, /*non_blocking=*/false, /*copy=*/true));
    saved.put("exp_avg_sq", v_.cpu());  // no step writes it in place
    return saved;
  }

  void restore(const state_dict& saved) override {
    check_entries(saved, {"exp_avg", "exp_avg_sq"});
    const auto count = static_cast<std::int64_t>(options_.tensors.size());
    v_ = m_ = at::Tensor{};
    waits_.clear();
    if (saved.empty()) return;
    const auto m = saved.tensor("exp_avg", options_.parameters);
    v_ = saved.tensor("exp_avg_sq", count);
    m_ = m.clone();  // steps write it in place
    for (std::int64_t i = 0; i < count; ++i) waits_.push_back(v_[i].item<float>() == never);
  }

 private:
  /// Second moment of a tensor that has not taken a step.
  static constexpr float never = -1;

  /// Does the work of step() tensor by tensor, if some tensors have no gradient or have had none so far.
  void step_some(const at::Tensor& weights, const at::Tensor& gradient, const std::vector<bool>& missing,
                 double lr_scale, std::uint64_t completed) {
    const auto count = static_cast<std::int64_t>(options_.tensors.size());
    if (waits_.empty()) waits_.assign(options_.tensors.size(), !v_.defined());
    if (!v_.defined()) {
      v_ = at::full({count}, never, weights.options());
      m_ = at::zeros_like(weights);
    }
    follow(weights);
    const auto [beta_1, beta_2] = betas_;
    const auto squares = squares_of(gradient);
    const auto moments = at::where(v_.le(0), squares, v_ * beta_2 + squares * (1 - beta_2));
    const auto scales = (moments.sqrt() + options_.eps).reciprocal();
    const auto decay = decay_of(weights);
    const auto share = options_.grad_averaging ? 1 - beta_1 : 1;
    v_ = v_.clone();  // a saved state may share it
    for (std::int64_t i = 0; i < count; ++i) {
      const auto tensor = static_cast<std::size_t>(i);
      if (missing[tensor]) continue;
      const auto direction = part_of(decay, tensor).addcmul_(part_of(gradient, tensor), scales[i]);
      const auto m = part_of(m_, tensor);
      if (waits_[tensor] && options_.starts_at_gradient)
        m.copy_(direction);
      else
        m.mul_(beta_1).add_(direction, share);
      v_[i] = moments[i];
      part_of(weights, tensor).sub_(m, options_.schedule.rate(options_.lr, completed) * lr_scale);
      waits_[tensor] = false;
    }
  }

  /// Checks a restored state against the weights and moves it to their device.
  void follow(const at::Tensor& weights) {
    check_size(m_, weights.numel());
    v_ = v_.to(weights.device());
    m_ = m_.to(weights.device());
  }

  /// Returns λw, [P], with zeros where weight decay does not apply.
  at::Tensor decay_of(const at::Tensor& weights) const {
    auto decay = weights * options_.weight_decay;
    for (const auto& where : options_.undecayed) decay.narrow(0, where.first, where.count).zero_();
    return decay;
  }

  at::Tensor part_of(const at::Tensor& flat, std::size_t layer) const {
    const auto& where = options_.tensors[layer];
    return flat.narrow(0, where.first, where.count);
  }

  /// Returns ‖g‖² of each layer: [layers].
  at::Tensor squares_of(const at::Tensor& gradient) const {
    std::vector<at::Tensor> squares;
    for (std::size_t i = 0; i < options_.tensors.size(); ++i) {
      const auto part = part_of(gradient, i);
      squares.push_back(part.dot(part));
    }
    return at::stack(squares);
  }

  optimizer_options options_;
  std::pair<double, double> betas_;
  at::Tensor v_;             ///< [layers].
  at::Tensor m_;             ///< [P].
  std::vector<bool> waits_;  ///< Whether each layer has not taken a step while others have; empty if all have.
};

}  // namespace

std::unique_ptr<optimizer> make_novograd(const optimizer_options& options) {
  return std::make_unique<novograd>(options);
}

}  // namespace troupe
