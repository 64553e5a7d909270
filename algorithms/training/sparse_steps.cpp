#include "troupe/algorithms/training/sparse_steps.hpp"

#include "troupe/data/sets/sparsity.hpp"

#include <ATen/core/Tensor.h>

#include <algorithm>

namespace troupe {

bool are_sparse_steps(const replica_options& options, const worker_training& work, const advance& request) {
  return has_sparse_steps(options) && !work.gradient && work.lr_scale == 1 &&
         request.verbs == std::vector{verb::gradient, verb::apply};
}

std::uint64_t sparse_stepper::run(worker_training& work, std::uint64_t most) {
  constexpr std::uint64_t rows_at_once = 1024;
  auto& now = work.x.now;
  const auto batch = static_cast<std::uint64_t>(options_.sampling.batch_size);
  most = std::clamp<std::uint64_t>(rows_at_once / batch, 1, work.store->most_steps(most));
  const auto rows = work.samples.rows_of(now.origin.step, with_equal_rate(work, most));
  gather(rows);
  const auto access = work.store->before_sparse_steps(work.x);
  const models::sparse_sgd_options settings{
      .lr = options_.optimizer.schedule.rate(options_.optimizer.lr, work.samples.scheduled(now.origin.step)),
      .batch_size = options_.sampling.batch_size,
      .weight_decay = options_.optimizer.weight_decay,
      .share = options_.optimizer.weight_decay > 0 ? shares() : nullptr,
      .atomic = access.atomic,
      .lock = access.lock,
      .loss_sum = work.tally.loss_sum};
  work.tally.loss_sum = options_.model->step(samples_, settings, options_.layout, now.values.mutable_data_ptr<float>());
  rows_.require_unchanged();
  work.tally.sample_count += static_cast<std::int64_t>(samples_.size());
  const auto steps = (rows.size() + batch - 1) / batch;  // the last step of an epoch may have fewer samples
  check_loss(options_, work.tally.loss_sum, now.origin.step, steps);
  now.origin.step += steps;
  now.origin.version += steps;
  work.store->after_steps(work.x, steps);
  return steps;
}

/// Returns how many of the next `most` steps have the learning rate of the first.
std::uint64_t sparse_stepper::with_equal_rate(const worker_training& work, std::uint64_t most) const {
  const auto& schedule = options_.optimizer.schedule;
  if (schedule.constant() && !(schedule.changes && schedule.changes->any())) return most;
  const auto rate_at = [&](std::uint64_t step) {
    return schedule.rate(options_.optimizer.lr, work.samples.scheduled(step));
  };
  const auto step = work.x.now.origin.step;
  const auto rate = rate_at(step);
  std::uint64_t steps = 1;
  while (steps < most && rate_at(step + steps) == rate) ++steps;
  return steps;
}

void sparse_stepper::gather(std::span<const std::int64_t> rows) {
  const auto& targets = options_.samples->targets;
  const auto* classes = targets.scalar_type() == at::kLong ? targets.const_data_ptr<std::int64_t>() : nullptr;
  const auto* numbers = classes ? nullptr : targets.const_data_ptr<float>();
  samples_.resize(rows.size());
  const auto taken = rows_.take(*options_.samples->rows, rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto& row = taken[i];
    samples_[i] = {row.columns, row.values, static_cast<std::int32_t>(row.count),
                   classes ? static_cast<float>(classes[rows[i]]) : numbers[rows[i]]};
  }
}

/// Returns, by column, the number of rows divided by the number of rows that touch the column.
const float* sparse_stepper::shares() {
  if (!share_.empty()) return share_.data();
  const auto rows = static_cast<float>(options_.samples->rows->rows());
  for (const auto touched : data::touches(*options_.samples->rows))
    share_.push_back(touched == 0 ? 0 : rows / static_cast<float>(touched));
  return share_.data();
}

}  // namespace troupe
