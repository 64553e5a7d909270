#include "troupe/actors/replica.hpp"

#include "troupe/actors/rules/pieces.hpp"
#include "troupe/actors/support/assert.hpp"
#include "troupe/data/random.hpp"
#include "troupe/models/gradient_hooks.hpp"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

namespace {

/// Counts which gradients of a backward pass have come, and lets go of each bucket with its last one.
class bucket_watch {
 public:
  bucket_watch(const models::flat_layout& layout, std::vector<range> buckets) : buckets_(std::move(buckets)) {
    for (const auto& entry : layout.parameters) {
      const auto holds = [&](const range& one) {
        return entry.first >= one.first && entry.first < one.first + one.count;
      };
      const auto found = std::find_if(buckets_.begin(), buckets_.end(), holds);
      TROUPE_ASSERT(found != buckets_.end(), "every parameter is in a bucket");
      bucket_of_.push_back(static_cast<std::size_t>(found - buckets_.begin()));
    }
  }

  /// Before a backward pass that adds into `gradient`, whose buckets go to `leave`.
  void begin(const part& gradient, const replica::departures& leave) {
    gradient_ = &gradient;
    leave_ = &leave;
    open_.assign(buckets_.size(), 0);
    for (const auto bucket : bucket_of_) open_[bucket] += 1;
  }

  /// The gradient of a parameter is there.
  void come(std::size_t parameter) {
    if (!leave_) return;  // a pass that is not the last of its step
    const auto bucket = bucket_of_.at(parameter);
    if (--open_[bucket] == 0) send(bucket);
  }

  /// After the pass: what was not used in it has a gradient of zeros, and leaves too.
  void end() {
    for (std::size_t bucket = 0; bucket < open_.size(); ++bucket)
      if (open_[bucket] > 0) send(bucket);
    leave_ = nullptr;
    gradient_ = nullptr;
  }

 private:
  void send(std::size_t bucket) {
    auto piece = *gradient_;
    const auto& where = buckets_[bucket];
    piece.which.part = static_cast<std::uint32_t>(bucket);
    piece.piece = {where.first, gradient_->piece.values.narrow(0, where.first, where.count)};
    (*leave_)(std::move(piece));
  }

  std::vector<range> buckets_;
  std::vector<std::size_t> bucket_of_;  ///< By parameter of the layout.
  std::vector<std::int64_t> open_;      ///< By bucket: gradients still to come.
  const part* gradient_{nullptr};
  const replica::departures* leave_{nullptr};
};

}  // namespace

struct replica::parts {
  replica_options options;
  std::unique_ptr<models::network> network;
  std::unique_ptr<troupe::optimizer> optimizer;
  data::sampler sampler;
  at::Generator dropout = at::detail::createCPUGenerator();
  std::shared_ptr<const std::vector<range>> watched;  ///< The buckets that `watch` was made for.
  std::optional<bucket_watch> watch;
  snapshot now;
  bool own{false};  ///< x was made by this run, and nobody else has seen it yet.
  std::optional<part> gradient;
  double lr_scale{1};
  double loss_sum{0};
  std::int64_t sample_count{0};

  explicit parts(replica_options given)
      : options(std::move(given)),
        network(models::make_network(*options.model, options.shape, options.seed)),
        optimizer(make_optimizer(options.optimizer)),
        sampler(options.sampling) {
    network->draw_from(dropout);
    network->train(true);
  }

  /// g = the mean gradient over this worker's batch of the step, at `now`. Where it leaves in buckets, each goes as
  /// soon as the last micro-batch has computed it.
  void compute_gradient(const departure& leaving, const departures& leave) {
    const auto step = now.origin.step;
    const auto rank = static_cast<std::uint64_t>(options.rank);
    const auto indices = sampler.batch_at(step);
    const auto count = static_cast<std::int64_t>(indices.size());

    // Forward passes write float buffers in place.
    if (options.layout.total > options.layout.parameter_end) make_own();
    gradient = part{.origin = now.origin,
                    .which = {.place = leaving.place, .part = 0},
                    .what = slot::gradient,
                    .at = stage::contribution,
                    .piece = {0, options.pool.take_zeros(options.layout.parameter_end)},
                    .total = options.layout.parameter_end,
                    .sample_count = count};
    models::bind_weights(*network, options.layout, now.values);
    models::bind_gradients(*network, options.layout, gradient->piece.values);
    dropout.set_current_seed(data::keyed(options.seed, data::purpose::dropout, rank, step));
    if (leaving.port) watch_buckets(leaving.buckets);

    const auto micro = count / options.micro_batches;
    for (std::int64_t i = 0; i < options.micro_batches; ++i) {
      const auto begin = indices.begin() + i * micro;
      const auto batch = data::make_batch(*options.samples, options.scale, {begin, begin + micro});
      const auto loss = models::mean_loss(options.loss, network->forward(batch.inputs), batch.targets);
      const auto departs = leaving.port && i + 1 == options.micro_batches;
      if (departs) watch->begin(*gradient, leave);
      (options.micro_batches > 1 ? loss / static_cast<double>(options.micro_batches) : loss).backward();
      if (departs) watch->end();
      take_loss(loss.item<double>(), micro);
    }
  }

  void take_loss(double loss, std::int64_t samples) {
    if (!std::isfinite(loss))
      throw std::runtime_error("the loss of step " + std::to_string(now.origin.step + 1) + " is not finite (" +
                               std::to_string(loss) + "); try a smaller optimizer.lr");
    loss_sum += loss * static_cast<double>(samples);
    sample_count += samples;
  }

  void watch_buckets(const std::shared_ptr<const std::vector<range>>& buckets) {
    if (watched == buckets) return;
    if (!watched) models::watch_gradients(*network, [this](std::size_t parameter) { watch->come(parameter); });
    watch.emplace(options.layout, *buckets);
    watched = buckets;
  }

  /// x ← one optimizer step from x along g, out of place: the old x is still being read elsewhere.
  void apply() {
    TROUPE_ASSERT(gradient, "apply follows a gradient");
    make_own();
    optimizer->step(now.values.narrow(0, 0, options.layout.parameter_end), gradient->piece.values, lr_scale);
    now.origin.step += 1;
    now.origin.version += 1;
    gradient.reset();
    lr_scale = 1;
  }

  /// x ← what an exchange answered, or g ← it, or x ← x + it; out of place likewise.
  void take_in(const outcome& answer) {
    const auto& last = answer.pieces.back();
    const auto end = last.first + last.values.numel();
    TROUPE_ASSERT(end == options.layout.parameter_end || end == options.layout.total, "an answer is of this model");
    auto values = rules::side_by_side(answer.pieces, end, options.pool);
    lr_scale *= answer.lr_scale;
    switch (answer.what) {
      case slot::gradient:
        TROUPE_ASSERT(gradient, "an exchange of gradients follows a gradient");
        gradient->piece = {0, std::move(values)};
        gradient->sample_count = 1;  // it is everybody's: the means of all members weigh the same
        break;
      case slot::parameters:
        if (now.values.numel() == end) {
          now.values = std::move(values);
          own = false;
        } else {
          make_own();
          now.values.narrow(0, 0, end).copy_(values);
        }
        break;
      case slot::change:
        make_own();
        now.values.narrow(0, 0, end).add_(values);
        break;
    }
  }

  /// Sees to it that x may be written.
  void make_own() {
    if (std::exchange(own, true)) return;
    auto next = options.pool.take(options.layout.total);
    next.copy_(now.values);
    now.values = std::move(next);
  }
};

replica::replica(replica_options options) : parts_(std::make_unique<parts>(std::move(options))) {
  at::set_num_threads(static_cast<int>(parts_->options.threads));
}

replica::~replica() = default;

advanced replica::run(const advance& request, const std::atomic<bool>& cancelled, const departures& leave) {
  auto& my = *parts_;
  my.now = request.from;
  my.now.origin.sender = my.options.rank;
  my.own = false;
  my.gradient = request.gradient;
  my.lr_scale = 1;
  my.loss_sum = 0;
  my.sample_count = 0;
  const c10::AutoGradMode with_gradients{true};

  for (const auto& answer : request.with) my.take_in(answer);
  for (std::uint32_t round = 0; round < request.times && (round == 0 || !cancelled); ++round)
    for (std::size_t i = 0; i < request.verbs.size(); ++i) {
      const auto last = i + 1 == request.verbs.size();
      if (request.verbs[i] == verb::apply)
        my.apply();
      else
        my.compute_gradient(last ? request.leaving : departure{}, leave);
    }
  advanced result{.now = std::move(my.now),
                  .gradient = std::move(my.gradient),
                  .loss_sum = my.loss_sum,
                  .sample_count = my.sample_count};
  my.now = {};
  my.gradient.reset();
  return result;
}

}  // namespace troupe
