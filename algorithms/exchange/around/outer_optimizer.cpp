#include "troupe/algorithms/exchange/around/outer_optimizer.hpp"

#include <ATen/ops/full_like.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/zeros_like.h>

namespace troupe {

outer_state outer_optimizer::begin(const at::Tensor& initial) const {
  outer_state state{.anchor = initial.clone(), .first = {}, .second = {}};
  if (rule != outer_rule::none) state.first = at::zeros_like(initial);
  if (rule == outer_rule::adam) state.second = at::full_like(initial, eps * eps);
  return state;
}

void outer_optimizer::step(outer_state& state, const at::Tensor& mean, double rate_ratio) const {
  auto& [anchor, first, second] = state;
  if (rule == outer_rule::none) {
    anchor.copy_(mean);
    return;
  }
  const auto gradient = at::sub(anchor, mean);
  if (rule == outer_rule::adam) {
    first.mul_(beta1).sub_(gradient, 1 - beta1);
    second.mul_(beta2).addcmul_(gradient, gradient, 1 - beta2);
    anchor.addcdiv_(first, second.sqrt().add_(eps), lr);
    return;
  }
  // A term whose factor is 0 is left out, so that no bit of the mean changes, not even the sign of a zero.
  anchor.copy_(mean);
  if (lr != 1) anchor.add_(gradient, 1 - lr);
  first.mul_(rule == outer_rule::slowmo ? momentum * rate_ratio : momentum);
  if (rule == outer_rule::nesterov) {
    first.add_(gradient);
    if (momentum != 0) anchor.sub_(first, lr * momentum);
  } else {
    if (momentum != 0) anchor.sub_(first, lr);
    first.add_(gradient);
  }
}

}  // namespace troupe
