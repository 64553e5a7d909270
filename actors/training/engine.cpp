#include "troupe/actors/training/engine.hpp"

#include "troupe/actors/support/autocast.hpp"
#include "troupe/models/gradient_hooks.hpp"

#include <ATen/ATen.h>

namespace troupe {

engine::engine(const replica_options& options)
    : where(options.accelerator, options.pool),
      layout_(options.layout),
      bfloat16_(options.bfloat16),
      network_(models::make_network(*options.model, options.shape, options.seed)),
      dropout_(where.make_generator()) {
  network_->draw_from(dropout_);
  network_->train(true);
  if (!options.norms.bring) return;
  network_->synchronise([this](std::size_t layer, bool backward, const at::Tensor& own, std::int64_t samples) {
    return combine(layer, backward, own, samples);
  });
}

void engine::bind(const at::Tensor& x, const at::Tensor& gradient, std::uint64_t seed) {
  models::bind_weights(*network_, layout_, x);
  models::bind_gradients(*network_, layout_, gradient);
  dropout_.set_current_seed(seed);
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
  if (!watched_) models::watch_gradients(*network_, [this](std::size_t parameter) { watch_->complete(parameter); });
  watch_.emplace(layout_, *buckets);
  watched_ = buckets;
  return *watch_;
}

std::unique_ptr<engine> engine_pool::take(const replica_options& options) {
  if (free_.empty()) return std::make_unique<engine>(options);
  auto one = std::move(free_.back());
  free_.pop_back();
  return one;
}

}  // namespace troupe
