#include "troupe/algorithms/training/worker_training.hpp"

#include "troupe/algorithms/support/assert.hpp"
#include "troupe/data/random/random.hpp"

#include <limits>
#include <utility>
#include <vector>

namespace troupe {

/// Results of one micro-batch; tensors stay on the device that computed them.
struct worker_training::pass_result {
  at::Tensor mean_loss;  ///< Mean loss, with its autograd graph until the backward pass.
  std::int64_t samples{0};
  std::optional<at::Tensor> correct{};  ///< Number of targets classified correctly.
  std::int64_t targets{0};              ///< Number of targets.
};

namespace {

/// Ensures that no callback runs after a pass has ended, however it ends.
struct forget_at_end {
  device::accelerator* gpu;
  ~forget_at_end() {
    if (gpu) gpu->forget();
  }
};

/// Sends a bucket: as it is if its port accepts tensors on the device, otherwise once it has been copied to the host.
void send_off(device::accelerator& gpu, part bucket, double computed, const bucket_destination& leaving,
              const bucket_sink& leave) {
  if (leaving.on_device) {
    bucket.piece.ready = gpu.mark_now();
    return leave(std::move(bucket), computed);
  }
  const auto values = std::exchange(bucket.piece.values, {});
  gpu.download_then(values, [bucket = std::move(bucket), computed, &leave](at::Tensor host) {
    auto copied = bucket;
    copied.piece.values = std::move(host);
    leave(std::move(copied), computed);
  });
}

/// Returns the share of a pass that is done when the share `of_backward` of its backward pass is done. A forward pass
/// takes about half as long as its backward pass.
double share_of_pass(double of_backward) {
  return (1 + 2 * of_backward) / 3;
}

}  // namespace

worker_training::worker_training(const replica_options& options, placement& where)
    : samples(options),
      store(make_store(options, where)),
      options_(options),
      optimizer_(make_optimizer(within(options.optimizer, {0, options.layout.parameter_end}))) {}

void worker_training::begin(engine& on, const advance& request) {
  gradients_ = 0;
  x = {request.from, false};
  x.now.origin.sender = options_.rank;
  gradient = request.gradient;
  samples.assign(request.assigned);
  tally = {.loss_sum = request.loss_sum};
  store->begin(x);
  if (!gradient || !on.where.gpu()) return;
  gradient->piece.values = on.where.bring(gradient->piece.values, gradient->piece.ready, last_gradient_);
  gradient->piece.ready.reset();
}

advanced worker_training::end(engine& on, const advance& request) {
  store->end(x);
  advanced result{.now = std::exchange(x, {}).now,
                  .gradient = std::exchange(gradient, std::nullopt),
                  .loss_sum = tally.loss_sum,
                  .sample_count = tally.sample_count,
                  .correct = tally.correct,
                  .classified = tally.classified,
                  .payload_bytes = payload_bytes_};
  store->hand_out(request.host_parameters, result);
  if (!result.gradient || !on.where.gpu()) return result;
  auto& piece = result.gradient->piece;
  auto given = on.where.hand_out(piece.values, request.host_gradient, last_gradient_);
  piece.values = std::move(given.values);
  piece.ready = std::move(given.ready);
  result.host_gradient = given.on_host;
  return result;
}

void worker_training::take_in(engine& on, const outcome& answer) {
  const auto& last = answer.pieces.back();
  const auto end = last.first + last.values.numel();
  TROUPE_ASSERT(end == options_.layout.parameter_end || end == options_.layout.total,
                "an answer must have the size of this model");
  auto values = on.where.join(answer.pieces, end);
  lr_scale *= answer.lr_scale;
  switch (answer.what) {
    case slot::gradient:
      TROUPE_ASSERT(gradient, "an exchange of gradients must follow a gradient");
      gradient->piece = {0, std::move(values)};
      gradient->sample_count = 1;  // the answer belongs to all workers, so the means of all members have equal weight
      break;
    case slot::parameters:
      store->replace(x, values);
      break;
    case slot::change:
      store->add(x, values);
      break;
  }
}

void worker_training::compute_gradient(engine& on, const bucket_destination& leaving, const bucket_sink& leave) {
  if (!options_.computes) return skip_gradient(on, leaving, leave);
  auto* gpu = on.where.gpu();
  const auto step = x.now.origin.step;
  const auto owner = data::owner_of(options_.sampling, samples.number_at(step));
  const auto count = samples.samples_at(step), parts = samples.parts_at(step);

  store->before_gradient(x);
  gradient = begin_gradient(on, leaving.place, count);
  on.bind(x.now.values, gradient->piece.values,
          data::keyed(options_.seed, data::purpose::dropout, static_cast<std::uint64_t>(owner.rank), owner.step));
  on.combine = [this, &on](std::size_t layer, bool backward, const at::Tensor& own, std::int64_t of) {
    return mean_over_workers(on.where, layer, backward, own, of);
  };
  auto* watch = leaving.buckets ? &on.watch(leaving.buckets) : nullptr;
  parts_ = parts;
  const bucket_sink to_the_port = [&](part bucket, double of_backward) {
    const auto computed = computed_after(share_of_pass(of_backward));
    gpu ? send_off(*gpu, std::move(bucket), computed, leaving, leave) : leave(std::move(bucket), computed);
  };
  const forget_at_end at_the_end{gpu};
  std::vector<pass_result> passes;  // read after all have started: an accelerator works while this thread continues
  for (std::int64_t i = 0; i < parts; ++i) {
    auto pass = run_pass(on, i);
    const auto more = i + 1 < parts;
    const auto loss = std::exchange(pass.mean_loss, pass.mean_loss.detach());
    passes.push_back(std::move(pass));
    const auto departs = watch && !more;
    if (departs) watch->begin(*gradient, to_the_port);
    const auto share = static_cast<double>(count) / static_cast<double>(passes.back().samples);
    (parts > 1 ? loss.div(share) : loss).backward();
    if (!more) on.mark_missing(gradient->piece.values);
    if (departs) watch->end();
    if (gpu && (more || samples.is_known(step + 1))) samples.send_ahead(more ? step : step + 1, more ? i + 1 : 0, *gpu);
  }
  if (gpu && watch) gpu->synchronise();  // waits until all buckets have left; throws what prevented it
  on.combine = {};
  store->after_gradient(x);
  for (const auto& pass : passes) add(pass);
  gradients_ += 1;
}

/// Returns the number of gradients that the request has computed after this share of the pass under way.
double worker_training::computed_after(double share) const {
  return gradients_ + (static_cast<double>(pass_) + share) / static_cast<double>(parts_);
}

/// Sets g to zeros, with the number of samples of this worker's batch.
void worker_training::skip_gradient(engine& on, const bucket_destination& leaving, const bucket_sink& leave) {
  const auto count = samples.samples_at(x.now.origin.step);
  gradient = begin_gradient(on, leaving.place, count);
  if (leaving.buckets) {
    bucket_watch watch{options_.layout, *leaving.buckets};
    parts_ = samples.parts_at(x.now.origin.step);
    pass_ = static_cast<std::uint64_t>(parts_ - 1);  // the last pass
    const bucket_sink in_time = [&](part bucket, double of_backward) {
      leave(std::move(bucket), computed_after(share_of_pass(of_backward)));
    };
    watch.begin(*gradient, in_time);
    watch.skip();
    watch.end();
  }
  gradients_ += 1;
  tally.loss_sum = std::numeric_limits<double>::quiet_NaN();
  tally.sample_count += count;
}

/// Returns the gradient that backward passes add to: zeros, or the gradient of the L2 penalty.
part worker_training::begin_gradient(engine& on, std::uint32_t place, std::int64_t sample_count) const {
  const auto parameters = options_.layout.parameter_end;
  auto values = on.where.take_zeros(parameters);
  const auto penalty = options_.optimizer.l2_penalty;
  if (penalty != 0) values.add_(x.now.values.narrow(0, 0, parameters), penalty);
  return {.origin = x.now.origin,
          .which = {.place = place, .part = 0},
          .what = slot::gradient,
          .at = stage::contribution,
          .piece = {0, std::move(values)},
          .total = parameters,
          .sample_count = sample_count};
}

/// Runs the forward pass of micro-batch i.
worker_training::pass_result worker_training::run_pass(engine& on, std::int64_t i) {
  pass_ = static_cast<std::uint64_t>(i);
  const auto batch = samples.take(x.now.origin.step, i, on.where.gpu());
  const auto output = on.forward(batch.inputs);
  pass_result result{.mean_loss = models::mean_loss(options_.loss, output, batch.targets),
                     .samples = batch.targets.size(0),
                     .targets = batch.targets.numel()};
  // Sparse steps do not count correct targets; neither do the other steps of a run that has sparse ones.
  if (!has_sparse_steps(options_)) result.correct = models::correct_targets(options_.loss, output, batch.targets);
  return result;
}

void worker_training::add(const pass_result& one) {
  const auto loss = one.mean_loss.item<double>();
  check_loss(options_, loss, x.now.origin.step);
  tally.loss_sum += loss * static_cast<double>(one.samples);
  tally.sample_count += one.samples;
  if (!one.correct) return;
  tally.correct += one.correct->item<std::int64_t>();
  tally.classified += one.targets;
}

/// Returns the means over all workers of a norm's statistics in the pass under way.
models::group_means worker_training::mean_over_workers(placement& where, std::size_t layer, bool backward,
                                                       const at::Tensor& own, std::int64_t samples) {
  const auto& norms = options_.norms;
  const auto bucket = layer + (backward ? norms.buckets.size() / 2 : 0);
  const auto elements = norms.buckets.at(bucket);
  TROUPE_ASSERT(own.numel() == elements.count, "a norm must provide one set of statistics per channel");
  auto origin = x.now.origin;
  origin.step = norms.passes.before(origin.step) + pass_;
  // Assumes that norms divide both the forward and the backward pass into equal parts.
  const auto layers = norms.buckets.size() / 2;
  const auto passed = static_cast<double>(backward ? layers - layer : layer + 1) / static_cast<double>(layers + 1);
  const auto computed = computed_after(backward ? share_of_pass(passed) : passed * share_of_pass(0));
  auto answer = norms.bring({.origin = origin,
                             .which = {norms.place, static_cast<std::uint32_t>(bucket)},
                             .what = slot::gradient,
                             .at = stage::contribution,
                             .piece = {elements.first, where.on_host(own.detach().contiguous())},
                             .total = norms.total,
                             .sample_count = samples},
                            computed);
  payload_bytes_ = answer.payload_bytes;
  for (auto& piece : answer.pieces) piece.first -= elements.first;
  return {where.join(answer.pieces, elements.count), answer.sample_count};
}

void worker_training::apply() {
  TROUPE_ASSERT(gradient, "apply must follow a gradient");
  if (options_.computes)
    store->step(x, [&](const at::Tensor& parameters) {
      optimizer_->step(parameters, gradient->piece.values, lr_scale, samples.scheduled(x.now.origin.step));
    });
  x.now.origin.step += 1;
  x.now.origin.version += 1;
  gradient.reset();
  lr_scale = 1;
  store->after_steps(x, 1);
}

state_dict worker_training::state() const {
  state_dict saved;
  saved.put_all("optimizer", optimizer_->state());
  if (lr_scale != 1) saved.put_number("lr_scale", lr_scale);
  if (payload_bytes_ != 0) saved.put_count("payload_bytes", payload_bytes_);
  return saved;
}

void worker_training::restore(const state_dict& saved) {
  for (const auto& [name, values] : saved.entries())
    if (!name.starts_with("optimizer/") && name != "lr_scale" && name != "payload_bytes")
      throw state_error("the entry \"" + name + "\" is unknown to a worker's computation");
  const auto scale = saved.has("lr_scale") ? saved.number("lr_scale") : 1;
  const auto bytes = saved.has("payload_bytes") ? saved.count("payload_bytes") : 0;
  optimizer_->restore(saved.all("optimizer"));
  lr_scale = scale;
  payload_bytes_ = bytes;
}

}  // namespace troupe
