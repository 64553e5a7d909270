#include "troupe/actors/replica.hpp"

#include "troupe/actors/rules/pieces.hpp"
#include "troupe/actors/support/assert.hpp"
#include "troupe/data/random.hpp"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include <cmath>
#include <optional>
#include <stdexcept>
#include <string>

namespace troupe {

struct replica::parts {
  replica_options options;
  std::unique_ptr<models::network> network;
  std::unique_ptr<troupe::optimizer> optimizer;
  data::sampler sampler;
  at::Generator dropout = at::detail::createCPUGenerator();
  snapshot now;
  std::optional<part> gradient;
  double lr_scale{1};
  double loss_sum{0};
  std::int64_t sample_count{0};
  std::uint64_t payload_bytes{0};  ///< As the exchange of the norms last told.

  explicit parts(replica_options given)
      : options(std::move(given)),
        network(models::make_network(*options.model, options.shape, options.seed)),
        optimizer(make_optimizer(options.optimizer)),
        sampler(options.sampling) {
    network->draw_from(dropout);
    network->train(true);
    if (options.norms.bring) network->synchronise(over_all_workers());
  }

  /// Means over all workers of what a norm has of the pass under way.
  models::group_mean over_all_workers() {
    return [this](std::size_t layer, bool backward, const at::Tensor& own, std::int64_t samples) {
      const auto& norms = options.norms;
      const auto bucket = layer + (backward ? norms.buckets.size() / 2 : 0);
      const auto where = norms.buckets.at(bucket);
      TROUPE_ASSERT(own.numel() == where.count, "a norm brings the statistics of its channels");
      auto answer = norms.bring({.origin = now.origin,
                                 .which = {norms.place, static_cast<std::uint32_t>(bucket)},
                                 .what = slot::gradient,
                                 .at = stage::contribution,
                                 .piece = {where.first, own.detach().contiguous()},
                                 .total = norms.total,
                                 .sample_count = samples});
      payload_bytes = answer.payload_bytes;
      for (auto& piece : answer.pieces) piece.first -= where.first;
      return rules::side_by_side(answer.pieces, where.count, options.pool);
    };
  }

  /// g = the mean gradient over this worker's batch of the step, at `now`.
  void compute_gradient() {
    const auto step = now.origin.step;
    const auto rank = static_cast<std::uint64_t>(options.rank);
    const auto indices = sampler.batch_at(step);
    const auto batch = data::make_batch(*options.samples, options.scale, indices);
    const auto count = static_cast<std::int64_t>(indices.size());

    auto values = options.pool.take_zeros(options.layout.parameter_end);
    models::bind_weights(*network, options.layout, now.values);
    models::bind_gradients(*network, options.layout, values);
    dropout.set_current_seed(data::keyed(options.seed, data::purpose::dropout, rank, step));

    const auto loss = models::mean_loss(options.loss, network->forward(batch.inputs), batch.targets);
    loss.backward();
    const auto loss_value = loss.item<double>();
    if (!std::isfinite(loss_value))
      throw std::runtime_error("the loss of step " + std::to_string(step + 1) + " is not finite (" +
                               std::to_string(loss_value) + "); try a smaller optimizer.lr");
    loss_sum += loss_value * static_cast<double>(count);
    sample_count += count;
    gradient = part{.origin = now.origin,
                    .which = {},
                    .what = slot::gradient,
                    .at = stage::contribution,
                    .piece = {0, std::move(values)},
                    .total = options.layout.parameter_end,
                    .sample_count = count};
  }

  /// x ← one optimizer step from x along g, in fresh memory: the old x is still being read elsewhere.
  void apply() {
    TROUPE_ASSERT(gradient, "apply follows a gradient");
    auto next = copy_of_now();
    optimizer->step(next.narrow(0, 0, options.layout.parameter_end), gradient->piece.values, lr_scale);
    now.values = std::move(next);
    now.origin.step += 1;
    now.origin.version += 1;
    gradient.reset();
    lr_scale = 1;
  }

  /// x ← what an exchange answered, or g ← it, or x ← x + it; out of place likewise.
  void take_in(const outcome& answer) {
    const auto end = options.layout.parameter_end;
    auto values = rules::side_by_side(answer.pieces, end, options.pool);
    lr_scale *= answer.lr_scale;
    switch (answer.what) {
      case slot::gradient:
        TROUPE_ASSERT(gradient, "an exchange of gradients follows a gradient");
        gradient->piece = {0, std::move(values)};
        gradient->sample_count = 1;  // it is everybody's: the means of all members weigh the same
        break;
      case slot::parameters:
        if (now.values.numel() == values.numel()) {
          now.values = std::move(values);
        } else {
          auto next = copy_of_now();
          next.narrow(0, 0, end).copy_(values);
          now.values = std::move(next);
        }
        break;
      case slot::change:
        auto next = copy_of_now();
        next.narrow(0, 0, end).add_(values);
        now.values = std::move(next);
        break;
    }
  }

  at::Tensor copy_of_now() {
    auto next = options.pool.take(options.layout.total);
    next.copy_(now.values);
    return next;
  }
};

replica::replica(replica_options options) : parts_(std::make_unique<parts>(std::move(options))) {
  // Forward passes write float buffers in place, and snapshots are frozen: a model with buffers needs copies first.
  TROUPE_ASSERT(parts_->options.layout.total == parts_->options.layout.parameter_end, "the model has no float buffers");
  at::set_num_threads(static_cast<int>(parts_->options.threads));
}

replica::~replica() = default;

advanced replica::run(const advance& request, const std::atomic<bool>& cancelled) {
  auto& my = *parts_;
  my.now = request.from;
  my.now.origin.sender = my.options.rank;
  my.gradient = request.gradient;
  my.lr_scale = 1;
  my.loss_sum = 0;
  my.sample_count = 0;
  const c10::AutoGradMode with_gradients{true};

  for (const auto& answer : request.with) my.take_in(answer);
  for (std::uint32_t round = 0; round < request.times && (round == 0 || !cancelled); ++round)
    for (const auto verb : request.verbs) verb == verb::gradient ? my.compute_gradient() : my.apply();
  advanced result{.now = std::move(my.now),
                  .gradient = std::move(my.gradient),
                  .loss_sum = my.loss_sum,
                  .sample_count = my.sample_count,
                  .payload_bytes = my.payload_bytes};
  my.now = {};
  my.gradient.reset();
  return result;
}

}  // namespace troupe
