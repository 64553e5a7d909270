#include "troupe/algorithms/training/placement.hpp"

#include "troupe/algorithms/rules/pieces.hpp"

#include <ATen/CPUGeneratorImpl.h>

namespace troupe {

placement::placement(std::shared_ptr<device::accelerator> gpu, models::buffer_pool pool)
    : gpu_(std::move(gpu)), pool_(std::move(pool)) {}

std::unique_ptr<device::accelerator::scope> placement::enter() const {
  return gpu_ ? gpu_->enter() : nullptr;
}

at::Generator placement::make_generator() const {
  return gpu_ ? gpu_->make_generator() : at::detail::createCPUGenerator();
}

at::Tensor placement::take(std::int64_t count) {
  return gpu_ ? gpu_->take(count) : pool_.take(count);
}

at::Tensor placement::take_zeros(std::int64_t count) {
  return gpu_ ? gpu_->take(count).zero_() : pool_.take_zeros(count);
}

at::Tensor placement::bring(const at::Tensor& values, const std::shared_ptr<const device::mark>& ready, twin& last) {
  if (!gpu_) return values;
  if (last.device.defined() && last.has(values)) return last.device;
  if (is_there(values)) {
    if (ready) ready->hold(values);
    last = {{}, values};
    return values;
  }
  last = {values, gpu_->take(values.numel())};
  gpu_->upload(values, last.device);
  return last.device;
}

at::Tensor placement::join(const std::vector<span>& pieces, std::int64_t count) {
  if (!gpu_) return rules::side_by_side(pieces, count, pool_);
  if (pieces.size() == 1 && is_there(pieces.front().values)) {
    if (pieces.front().ready) pieces.front().ready->hold(pieces.front().values);
    return pieces.front().values;
  }
  auto joined = gpu_->take(count);
  for (const auto& piece : pieces) {
    const auto target = joined.narrow(0, piece.first, piece.values.numel());
    if (!is_there(piece.values)) {
      gpu_->upload(piece.values, target);
      continue;
    }
    if (piece.ready) piece.ready->hold(piece.values);
    target.copy_(piece.values);
  }
  return joined;
}

placement::handed_out placement::hand_out(const at::Tensor& values, bool wanted, twin& last) {
  if (!gpu_) return {values};
  if (!last.device.is_same(values)) last = {{}, values};
  if (wanted && !last.host.defined()) last.host = gpu_->download(values);
  if (last.host.defined()) return {last.host};
  return {values, false, gpu_->mark_now()};
}

}  // namespace troupe
