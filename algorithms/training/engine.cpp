#include "troupe/algorithms/training/engine.hpp"

#include "troupe/algorithms/rules/missing_gradients.hpp"
#include "troupe/algorithms/support/autocast.hpp"
#include "troupe/models/networks/gradient_hooks.hpp"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <utility>

namespace troupe {

engine::engine(const replica_options& options)
    : where(options.accelerator, options.pool),
      layout_(options.layout),
      bfloat16_(options.bfloat16),
      network_(models::make_network(*options.model, options.shape, options.seed)),
      dropout_(where.make_generator()) {
  network_->draw_from(dropout_);
  network_->train(true);
  // The penalty is a function of all parameters and gives each of them a gradient.
  if (!options.optimizer.tensors.empty() && options.optimizer.l2_penalty == 0) {
    has_gradient_.resize(layout_.parameters.size());
    watch_passes();
  }
  if (!options.norms.bring) return;
  network_->synchronise([this](std::size_t layer, bool backward, const at::Tensor& own, std::int64_t samples) {
    return combine(layer, backward, own, samples);
  });
}

void engine::bind(const at::Tensor& x, const at::Tensor& gradient, std::uint64_t seed) {
  models::bind_weights(*network_, layout_, x);
  models::bind_gradients(*network_, layout_, gradient);
  dropout_.set_current_seed(seed);
  std::fill(has_gradient_.begin(), has_gradient_.end(), 0);
}

void engine::mark_missing(const at::Tensor& gradient) const {
  for (std::size_t i = 0; i < has_gradient_.size(); ++i)
    if (!has_gradient_[i]) rules::mark_missing(gradient, {layout_.parameters[i].first, layout_.parameters[i].count});
}

at::Tensor engine::forward(const at::Tensor& inputs) {
  const auto output = [&] {
    const autocast_scope in_bfloat16{bfloat16_, inputs.device().type()};
    return network_->forward(inputs);
  }();
  return bfloat16_ ? output.to(at::kFloat) : output;
}

bucket_watch& engine::watch(const std::shared_ptr<const std::vector<range>>& buckets) {
  if (watched_ == buckets) return *watch_;
  watch_passes();
  watch_.emplace(layout_, *buckets);
  watched_ = buckets;
  return *watch_;
}

void engine::watch_passes() {
  if (std::exchange(is_watched_, true)) return;
  models::watch_gradients(*network_, [this](std::size_t parameter) {
    if (!has_gradient_.empty()) has_gradient_[parameter] = 1;
    if (watch_) watch_->complete(parameter);
  });
}

std::unique_ptr<engine> engine_pool::take(const replica_options& options) {
  if (free_.empty()) return std::make_unique<engine>(options);
  auto result = std::move(free_.back());
  free_.pop_back();
  return result;
}

}  // namespace troupe
