#include "troupe/algorithms/training/batches.hpp"

#include "troupe/algorithms/support/assert.hpp"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace troupe {

namespace {

data::loader_options loading(const replica_options& options) {
  data::loader_options result{.samples = options.samples,
                              .scale = options.scale,
                              .sampling = options.sampling,
                              .augment = options.augment,
                              .seed = options.seed,
                              .threads = options.loading};
  if (options.accelerator)
    result.for_device = [device = options.accelerator](at::IntArrayRef sizes, at::ScalarType type) {
      return device->take_pinned(sizes, type);
    };
  result.batches = options.batches;
  return result;
}

std::size_t as_size(std::int64_t number) {
  return static_cast<std::size_t>(number);
}

}  // namespace

batches::batches(const replica_options& options) : options_(options), sampler_(options.sampling) {
  if (!options.samples->rows) loader_.emplace(loading(options));
}

std::uint64_t batches::number_at(std::uint64_t step) const {
  if (!options_.sampling.queue) return step;
  const auto number = assigned_at(step);
  TROUPE_ASSERT(number, "a step must have a batch");
  return *number;
}

std::optional<std::uint64_t> batches::assigned_at(std::uint64_t step) const {
  for (const auto& entry : assigned_)
    if (step >= entry.first_step && step < entry.end()) return entry.first_batch + (step - entry.first_step);
  return std::nullopt;
}

std::int64_t batches::samples_at(std::uint64_t step) const {
  return data::batch_size_at(options_.sampling, number_at(step));
}

/// Returns the number of samples of a micro-batch; the last one of a batch that is not full may have fewer.
std::int64_t batches::micro_batch_size() const {
  return options_.sampling.batch_size / options_.micro_batches;
}

std::int64_t batches::parts_at(std::uint64_t step) const {
  return (samples_at(step) + micro_batch_size() - 1) / micro_batch_size();
}

data::batch batches::take(std::uint64_t step, std::int64_t i, device::accelerator* gpu) {
  if (!gpu) return make(step, i);
  if (!ahead_ || ahead_->step != step || ahead_->part != i) send_ahead(step, i, *gpu);
  const auto arrived = *std::exchange(ahead_, std::nullopt);
  arrived.inputs.ready->hold(arrived.inputs.values);
  arrived.targets.ready->hold(arrived.targets.values);
  return {arrived.inputs.values, arrived.targets.values};
}

void batches::send_ahead(std::uint64_t step, std::int64_t i, device::accelerator& gpu) {
  const auto batch = make(step, i);
  ahead_ = upcoming{step, i, gpu.upload_ahead(batch.inputs), gpu.upload_ahead(batch.targets)};
}

std::span<const std::int64_t> batches::rows_of(std::uint64_t step, std::uint64_t most) {
  return sampler_.batches_at(number_at(step), most);
}

data::batch batches::make(std::uint64_t step, std::int64_t i) {
  const auto total = samples_at(step), first = i * micro_batch_size(),
             count = std::min(micro_batch_size(), total - first);
  if (!loader_) return make_sparse(rows_of(step, 1).subspan(as_size(first), as_size(count)));
  if (i == 0) divided_ = load(step);
  const auto whole = first + count < total ? divided_ : std::exchange(divided_, {});
  if (count == total) return whole;
  return {whole.inputs.narrow(0, first, count), whole.targets.narrow(0, first, count)};
}

data::batch batches::load(std::uint64_t step) {
  if (!options_.track) return load_now(step);
  const auto begin = std::chrono::steady_clock::now();
  auto loaded = load_now(step);
  options_.track.add("wait for samples", trace_time_of(begin), trace_time_of(std::chrono::steady_clock::now()));
  return loaded;
}

/// Returns the batch of `step`; the following ones are made in advance, as far as they are known.
data::batch batches::load_now(std::uint64_t step) {
  if (!options_.sampling.queue) return loader_->take(step);
  const auto enough = data::loader_options{}.ahead;
  std::vector<std::uint64_t> next;
  while (next.size() < enough) {
    const auto number = assigned_at(step + next.size() + 1);
    if (!number) break;
    next.push_back(*number);
  }
  return loader_->take(number_at(step), next);
}

data::batch batches::make_sparse(std::span<const std::int64_t> rows) {
  const auto begin = std::chrono::steady_clock::now();
  auto batch = data::make_batch(*options_.samples, options_.scale, {rows.begin(), rows.end()});
  making_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return batch;
}

}  // namespace troupe
