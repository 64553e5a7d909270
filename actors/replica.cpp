#include "troupe/actors/replica.hpp"

#include "troupe/actors/rules/pieces.hpp"
#include "troupe/actors/shared_memory.hpp"
#include "troupe/actors/support/assert.hpp"
#include "troupe/actors/support/autocast.hpp"
#include "troupe/actors/support/cores.hpp"
#include "troupe/actors/support/intra_op.hpp"
#include "troupe/data/loader.hpp"
#include "troupe/data/random.hpp"
#include "troupe/data/sparsity.hpp"
#include "troupe/models/gradient_hooks.hpp"
#include "troupe/models/sparse_sgd.hpp"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace troupe {

namespace {

/// Counts the finished gradients of a backward pass and releases each bucket with its last one.
class bucket_watch {
 public:
  bucket_watch(const models::flat_layout& layout, std::vector<range> buckets) : buckets_(std::move(buckets)) {
    for (const auto& entry : layout.parameters) {
      const auto holds = [&](const range& one) {
        return entry.first >= one.first && entry.first < one.first + one.count;
      };
      const auto found = std::find_if(buckets_.begin(), buckets_.end(), holds);
      TROUPE_ASSERT(found != buckets_.end(), "every parameter must be in a bucket");
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

/// Results of one micro-batch's forward pass; tensors stay on the device that computed them.
struct outlook {
  at::Tensor loss;  ///< Mean over the samples.
  std::int64_t samples{0};
  std::optional<at::Tensor> correct{};  ///< Targets that it puts into their class …
  std::int64_t targets{0};              ///< … of so many.
};

/// A batch on its way to the device.
struct upcoming {
  std::uint64_t step{0};
  std::int64_t part_of_batch{0};
  device::arriving inputs, targets;
};

/// Ensures that no callback runs after a pass has ended, however it ends.
struct forgotten_at_the_end {
  device::accelerator* where;
  ~forgotten_at_the_end() {
    if (where) where->forget();
  }
};

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// A tensor that the host and the device both have, so that what went one way is not sent back.
struct twin {
  at::Tensor host, device;

  bool knows(const at::Tensor& one) const { return one.is_same(host) || one.is_same(device); }
};

}  // namespace

struct replica::parts {
  replica_options options;
  std::unique_ptr<models::network> network;
  std::unique_ptr<troupe::optimizer> optimizer;
  data::sampler sampler;               ///< Of sparse samples.
  std::optional<data::loader> loader;  ///< Of dense ones.
  data::batch parted;                  ///< The batch under way, where it is taken in parts.
  double making{0};                    ///< Seconds that sparse batches have taken.
  device::accelerator* gpu{nullptr};   ///< None: the CPU, where x and g are where the messages have them.
  twin x, g;                           ///< Of an accelerator: those last seen.
  std::optional<upcoming> ahead;       ///< The batch that is on its way.
  at::Generator dropout;
  std::shared_ptr<const std::vector<range>> watched;  ///< The buckets that `watch` was made for.
  std::optional<bucket_watch> watch;
  snapshot now;
  std::vector<assignment> assigned;  ///< See advance::assigned.
  bool own{false};                   ///< x was made by this run and is not shared yet.
  std::optional<part> gradient;
  double lr_scale{1};  ///< Of the next step, which may be another run's: what was taken in may settle before it.
  double loss_sum{0};
  std::int64_t sample_count{0}, correct{0}, classified{0};
  std::uint64_t pass{0};                      ///< Of the step, under way: the exchange of the norms counts these.
  std::uint64_t payload_bytes{0};             ///< As last reported by that exchange.
  at::Tensor handed_out;                      ///< Of a shared memory: what x was when it was last handed out.
  std::uint64_t seen{0};                      ///< Likewise: its updates when x was read last.
  at::Tensor taken;                           ///< Of local steps: what was read then.
  std::int64_t made{0};                       ///< Likewise: steps since.
  std::vector<models::sparse_sample> sparse;  ///< Those of the steps under way.
  std::vector<float> share;                   ///< By column: rows over rows that touch it.

  explicit parts(replica_options given)
      : options(std::move(given)),
        network(models::make_network(*options.model, options.shape, options.seed)),
        optimizer(make_optimizer(within(options.optimizer, {0, options.layout.parameter_end}))),
        sampler(options.sampling),
        gpu(options.accelerator.get()),
        dropout(gpu ? gpu->make_generator() : at::detail::createCPUGenerator()) {
    network->draw_from(dropout);
    network->train(true);
    if (!options.samples->rows) loader.emplace(loading());
    if (options.norms.bring) network->synchronise(over_all_workers());
  }

  data::loader_options loading() const {
    data::loader_options made{.samples = options.samples,
                              .scale = options.scale,
                              .sampling = options.sampling,
                              .augment = options.augment,
                              .seed = options.seed,
                              .threads = options.loading};
    if (gpu)
      made.for_device = [device = options.accelerator](at::IntArrayRef sizes, at::ScalarType type) {
        return device->take_pinned(sizes, type);
      };
    made.batches = options.batches;
    return made;
  }

  /// Means over all workers of what a norm has of the pass under way.
  models::group_mean over_all_workers() {
    return
        [this](std::size_t layer, bool backward, const at::Tensor& own, std::int64_t samples) -> models::group_means {
          const auto& norms = options.norms;
          const auto bucket = layer + (backward ? norms.buckets.size() / 2 : 0);
          const auto where = norms.buckets.at(bucket);
          TROUPE_ASSERT(own.numel() == where.count, "a norm must provide one set of statistics per channel");
          auto origin = now.origin;
          origin.step = norms.passes.before(origin.step) + pass;
          auto answer = norms.bring({.origin = origin,
                                     .which = {norms.place, static_cast<std::uint32_t>(bucket)},
                                     .what = slot::gradient,
                                     .at = stage::contribution,
                                     .piece = {where.first, on_host(own.detach().contiguous())},
                                     .total = norms.total,
                                     .sample_count = samples});
          payload_bytes = answer.payload_bytes;
          for (auto& piece : answer.pieces) piece.first -= where.first;
          auto means = gpu ? on_device(answer.pieces, where.count)
                           : rules::side_by_side(answer.pieces, where.count, options.pool);
          return {std::move(means), answer.sample_count};
        };
  }

  /// Number of the batch that `step` draws.
  std::uint64_t batch_of(std::uint64_t step) const {
    if (!options.sampling.queue) return step;
    const auto batch = assigned_batch(step);
    TROUPE_ASSERT(batch, "a step must have a batch");
    return *batch;
  }

  std::optional<std::uint64_t> assigned_batch(std::uint64_t step) const {
    for (const auto& one : assigned)
      if (step >= one.first_step && step < one.end()) return one.first_batch + (step - one.first_step);
    return std::nullopt;
  }

  /// The step that the schedule of the learning rate counts for `step`.
  std::uint64_t scheduled(std::uint64_t step) const { return data::step_of(options.sampling, batch_of(step)); }

  /// Returns the batch of `step`; the following ones are made in advance, as far as they are known.
  data::batch load(std::uint64_t step) {
    if (!options.sampling.queue) return loader->take(step);
    const auto enough = data::loader_options{}.ahead;
    std::vector<std::uint64_t> next;
    while (next.size() < enough) {
      const auto batch = assigned_batch(step + next.size() + 1);
      if (!batch) break;
      next.push_back(*batch);
    }
    return loader->take(batch_of(step), next);
  }

  /// g = the mean gradient over this worker's batch of the step, at `now`. Where it leaves in buckets, each goes as
  /// soon as the last micro-batch has computed it.
  void compute_gradient(const departure& leaving, const departures& leave) {
    const auto step = now.origin.step;
    const auto batch_number = batch_of(step);
    const auto owner = data::owner_of(options.sampling, batch_number);
    const auto count = data::batch_size_at(options.sampling, batch_number);

    if (steps_in_memory()) look_into_memory();
    // Forward passes write float buffers in place.
    if (options.layout.total > options.layout.parameter_end) make_own();
    gradient = part{.origin = now.origin,
                    .which = {.place = leaving.place, .part = 0},
                    .what = slot::gradient,
                    .at = stage::contribution,
                    .piece = {0, begin_gradient()},
                    .total = options.layout.parameter_end,
                    .sample_count = count};
    models::bind_weights(*network, options.layout, now.values);
    models::bind_gradients(*network, options.layout, gradient->piece.values);
    dropout.set_current_seed(
        data::keyed(options.seed, data::purpose::dropout, static_cast<std::uint64_t>(owner.rank), owner.step));
    if (leaving.buckets) watch_buckets(leaving.buckets);
    const departures to_the_port = [&](part bucket) {
      gpu ? send_off(std::move(bucket), leaving, leave) : leave(std::move(bucket));
    };
    const forgotten_at_the_end at_the_end{gpu};
    std::vector<outlook> seen_of_parts;  // read when all is asked for: an accelerator works while this thread goes on
    const auto parts = parts_of(count);
    for (std::int64_t i = 0; i < parts; ++i) {
      pass = static_cast<std::uint64_t>(i);
      const auto batch = gpu ? arrived(step, i) : micro_batch(step, i);
      const auto output = forward(batch.inputs);
      const auto loss = models::mean_loss(options.loss, output, batch.targets);
      const auto samples = batch.targets.size(0);
      seen_of_parts.push_back({loss.detach(), samples, hits_of(output, batch.targets), batch.targets.numel()});
      const auto more = i + 1 < parts;
      const auto departs = leaving.buckets && !more;
      if (departs) watch->begin(*gradient, to_the_port);
      (parts > 1 ? loss / (static_cast<double>(count) / static_cast<double>(samples)) : loss).backward();
      if (departs) watch->end();
      if (gpu && (more || is_known(step + 1))) send_ahead(more ? step : step + 1, more ? i + 1 : 0);
    }
    if (gpu && leaving.buckets) gpu->synchronise();  // all buckets have left, or what kept one is thrown
    if (steps_in_memory()) give_back_buffers();
    for (const auto& one : seen_of_parts) take_outlook(one);
  }

  /// Whether it is decided which batch `step` draws.
  bool is_known(std::uint64_t step) const { return !options.sampling.queue || assigned_batch(step); }

  /// Samples of a micro-batch; the last of a batch that is not full may have fewer.
  std::int64_t micro_batch_size() const { return options.sampling.batch_size / options.micro_batches; }

  std::int64_t parts_of(std::int64_t count) const { return (count + micro_batch_size() - 1) / micro_batch_size(); }

  /// Returns the number of correctly classified targets as a tensor on the output's device; nothing for regression, and
  /// for runs with sparse steps, which do not count theirs.
  std::optional<at::Tensor> hits_of(const at::Tensor& output, const at::Tensor& targets) const {
    if (has_sparse_steps()) return std::nullopt;
    return models::correct_targets(options.loss, output, targets);
  }

  void take_outlook(const outlook& one) {
    take_loss(one.loss.item<double>(), one.samples);
    if (!one.correct) return;
    correct += one.correct->item<std::int64_t>();
    classified += one.targets;
  }

  /// Returns what backward passes add to: zeros, or the gradient of the penalty.
  at::Tensor begin_gradient() {
    auto begun = take_zeros(options.layout.parameter_end);
    const auto penalty = options.optimizer.l2_penalty;
    return penalty == 0 ? begun : begun.add_(parameters_of(now.values), penalty);
  }

  at::Tensor forward(const at::Tensor& inputs) {
    const auto made = [&] {
      const autocast_scope in_bfloat16{options.bfloat16, inputs.device().type()};
      return network->forward(inputs);
    }();
    return options.bfloat16 ? made.to(at::kFloat) : made;
  }

  /// Part i of the batch of `step`; the parts of a step are asked for in order.
  data::batch micro_batch(std::uint64_t step, std::int64_t i) {
    const auto all = data::batch_size_at(options.sampling, batch_of(step)), first = i * micro_batch_size(),
               count = std::min(micro_batch_size(), all - first);
    if (!loader) return sparse_batch(sampler.batches_at(batch_of(step), 1).subspan(as_size(first), as_size(count)));
    if (i == 0) parted = load(step);
    const auto whole = first + count < all ? parted : std::exchange(parted, {});
    if (count == all) return whole;
    return {whole.inputs.narrow(0, first, count), whole.targets.narrow(0, first, count)};
  }

  static std::size_t as_size(std::int64_t number) { return static_cast<std::size_t>(number); }

  data::batch sparse_batch(std::span<const std::int64_t> indices) {
    const auto begin = std::chrono::steady_clock::now();
    auto made = data::make_batch(*options.samples, options.scale, {indices.begin(), indices.end()});
    making += seconds_since(begin);
    return made;
  }

  double waited() const { return loader ? loader->waited() : making; }

  /// Lets a bucket leave: as it is for a port on the device, else when it has come to the host.
  void send_off(part bucket, const departure& leaving, const departures& leave) {
    if (leaving.on_device) {
      bucket.piece.ready = gpu->mark_now();
      return leave(std::move(bucket));
    }
    const auto values = std::exchange(bucket.piece.values, {});
    gpu->download_then(values, [bucket = std::move(bucket), &leave](at::Tensor host) {
      auto own = bucket;
      own.piece.values = std::move(host);
      leave(std::move(own));
    });
  }

  /// Makes a batch and sends it to the device beside the device's own work.
  void send_ahead(std::uint64_t step, std::int64_t part_of_batch) {
    const auto batch = micro_batch(step, part_of_batch);
    ahead = upcoming{step, part_of_batch, gpu->upload_ahead(batch.inputs), gpu->upload_ahead(batch.targets)};
  }

  data::batch arrived(std::uint64_t step, std::int64_t part_of_batch) {
    if (!ahead || ahead->step != step || ahead->part_of_batch != part_of_batch) send_ahead(step, part_of_batch);
    const auto come = *std::exchange(ahead, std::nullopt);
    come.inputs.ready->hold(come.inputs.values);
    come.targets.ready->hold(come.targets.values);
    return {come.inputs.values, come.targets.values};
  }

  /// Adds the mean `loss` of `samples` of this step.
  void take_loss(double loss, std::int64_t samples) {
    check_loss(loss, 1);
    loss_sum += loss * static_cast<double>(samples);
    sample_count += samples;
  }

  /// Throws if `loss`, of this step or of `steps` steps from this one on, is not finite, unless that is allowed.
  void check_loss(double loss, std::uint64_t steps) const {
    if (options.stop_on_non_finite && !std::isfinite(loss)) {
      const auto first = now.origin.step + 1;
      const auto which = steps == 1
                             ? "step " + std::to_string(first)
                             : "one of the steps " + std::to_string(first) + " to " + std::to_string(first + steps - 1);
      throw std::runtime_error("the loss of worker " + std::to_string(static_cast<std::uint64_t>(options.rank)) +
                               " in " + which + " is not finite (" + (std::isnan(loss) ? "nan" : "inf") +
                               "): training diverged; reduce optimizer.lr, or set run.stop_on_non_finite = "
                               "false to continue");
    }
  }

  void watch_buckets(const std::shared_ptr<const std::vector<range>>& buckets) {
    if (watched == buckets) return;
    if (!watched) models::watch_gradients(*network, [this](std::size_t parameter) { watch->come(parameter); });
    watch.emplace(options.layout, *buckets);
    watched = buckets;
  }

  /// x ← one optimizer step from x along g, out of place: the old x is still being read elsewhere.
  void apply() {
    TROUPE_ASSERT(gradient, "apply must follow a gradient");
    if (steps_in_memory()) {
      apply_to_memory();
    } else {
      make_own();
      optimizer->step(parameters_of(now.values), gradient->piece.values, lr_scale, scheduled(now.origin.step));
    }
    now.origin.step += 1;
    now.origin.version += 1;
    gradient.reset();
    lr_scale = 1;
    if (steps_beside_memory() && ++made >= options.local_steps) give_back();
  }

  /// Applies an answer out of place: x ← answer, g ← answer, or x ← x + answer.
  void take_in(const outcome& answer) {
    const auto& last = answer.pieces.back();
    const auto end = last.first + last.values.numel();
    TROUPE_ASSERT(end == options.layout.parameter_end || end == options.layout.total,
                  "an answer must have the size of this model");
    auto values = gpu ? on_device(answer.pieces, end) : rules::side_by_side(answer.pieces, end, options.pool);
    lr_scale *= answer.lr_scale;
    switch (answer.what) {
      case slot::gradient:
        TROUPE_ASSERT(gradient, "an exchange of gradients must follow a gradient");
        gradient->piece = {0, std::move(values)};
        gradient->sample_count = 1;  // it belongs to all: the means of all members have equal weight
        break;
      case slot::parameters:
        if (options.memory) {  // what others have written since stays
          options.memory->move(handed_out.narrow(0, 0, end), values);
          if (steps_beside_memory()) take_copy();
        } else if (now.values.numel() == end) {
          now.values = std::move(values);
          own = false;
        } else {
          make_own();
          now.values.narrow(0, 0, end).copy_(values);
        }
        break;
      case slot::change:
        TROUPE_ASSERT(!options.memory, "an exchange of a shared memory must not answer with a change");
        make_own();
        now.values.narrow(0, 0, end).add_(values);
        break;
    }
  }

  /// Sees to it that x may be written.
  void make_own() {
    if (std::exchange(own, true)) return;
    auto next = gpu ? gpu->take(options.layout.total) : options.pool.take(options.layout.total);
    next.copy_(now.values);
    now.values = std::move(next);
  }

  at::Tensor parameters_of(const at::Tensor& x) const { return x.narrow(0, 0, options.layout.parameter_end); }

  // In a shared memory only. ----------------------------------------------------------------------------------------

  void begin_in_memory() {
    handed_out = now.values;
    if (gpu) options.memory->bring_to(*gpu);
    now.ready.reset();
    if (steps_beside_memory()) return take_copy();
    now.values = options.memory->values();
    own = true;
  }

  bool steps_in_memory() const { return options.memory && options.local_steps == 1; }
  bool steps_beside_memory() const { return options.memory && options.local_steps > 1; }

  void take_copy() {
    seen = options.memory->updates();
    taken = options.memory->copy(options.pool);
    now.values = taken;
    own = false;
  }

  /// Adds what the steps on the copy have changed, float buffers too, and goes on from what there is then.
  void give_back() {
    options.memory->count_at_once(static_cast<std::uint64_t>(std::exchange(made, 0)), seen);
    seen = options.memory->updates();
    make_own();
    options.memory->merge(taken, now.values);
  }

  /// The gradient is that of x as it is while it is computed; of a locked one, as it is now.
  void look_into_memory() {
    seen = options.memory->updates();
    if (options.memory->how() != memory_writes::locked) return;
    now.values = taken = options.memory->copy(options.pool);
    own = false;
  }

  /// What the forward pass has made of the float buffers of a copy goes to the memory.
  void give_back_buffers() {
    const auto first = options.layout.parameter_end, count = options.layout.total - first;
    if (count == 0 || options.memory->how() != memory_writes::locked) return;
    options.memory->move(taken.narrow(0, first, count), now.values.narrow(0, first, count), first);
  }

  /// x ← one step from x as it is by now.
  void apply_to_memory() {
    auto& memory = *options.memory;
    const auto x = memory.values();
    if (memory.how() == memory_writes::atomic) {
      const auto before = parameters_of(memory.copy(options.pool));
      auto after = options.pool.take(before.numel());
      after.copy_(before);
      optimizer->step(after, gradient->piece.values, lr_scale, scheduled(now.origin.step));
      memory.move(before, after);
    } else {
      const models::held_lock alone{memory.lock()};
      optimizer->step(parameters_of(x), gradient->piece.values, lr_scale, scheduled(now.origin.step));
    }
    memory.count(1, seen);
  }

  /// x is handed out as a copy where it is wanted: an exchange of it, or a result, is of one moment.
  void end_in_memory(const advance& request, advanced& result) {
    if (gpu) gpu->synchronise();  // its keeper reads it, too
    result.host_parameters = request.host_parameters;
    result.now.values = request.host_parameters ? options.memory->copy(options.pool) : options.memory->values();
  }

  // Of sparse samples only. -----------------------------------------------------------------------------------------

  /// Whether the steps that are asked for need no backward pass, and no dense gradient.
  bool are_sparse_steps(const advance& request) const {
    return has_sparse_steps() && !gradient && lr_scale == 1 &&
           request.verbs == std::vector{verb::gradient, verb::apply};
  }

  /// Returns whether this run can use sparse steps.
  bool has_sparse_steps() const {
    return makes_sparse_steps(*options.model, options.optimizer) && options.samples->rows && !gpu;
  }

  /// Makes whole steps, at most `most`, of one epoch; returns how many.
  std::uint64_t sparse_steps(std::uint64_t most) {
    constexpr std::uint64_t rows_at_once = 1024;
    if (steps_beside_memory()) most = std::min(most, static_cast<std::uint64_t>(options.local_steps - made));
    const auto batch = static_cast<std::uint64_t>(options.sampling.batch_size);
    most = of_one_rate(std::clamp<std::uint64_t>(rows_at_once / batch, 1, most));
    const auto indices = sampler.batches_at(batch_of(now.origin.step), most);
    gather(indices);
    if (!steps_in_memory()) make_own();
    const models::sparse_sgd_options settings{
        .lr = options.optimizer.lr * options.optimizer.schedule.at(scheduled(now.origin.step)),
        .batch_size = options.sampling.batch_size,
        .weight_decay = options.optimizer.weight_decay,
        .share = options.optimizer.weight_decay > 0 ? shares() : nullptr,
        .atomic = steps_in_memory() && options.memory->how() == memory_writes::atomic,
        .lock = steps_in_memory() ? options.memory->lock() : nullptr,
        .loss_sum = loss_sum};
    if (steps_in_memory()) seen = options.memory->updates();
    loss_sum = options.model->step(sparse, settings, options.layout, now.values.mutable_data_ptr<float>());
    const auto steps = (indices.size() + batch - 1) / batch;  // the last of an epoch may have fewer samples
    check_loss(loss_sum, steps);
    sample_count += static_cast<std::int64_t>(sparse.size());
    if (steps_in_memory()) options.memory->count(steps, seen);
    now.origin.step += steps;
    now.origin.version += steps;
    if (steps_beside_memory() && (made += static_cast<std::int64_t>(steps)) >= options.local_steps) give_back();
    return steps;
  }

  /// Returns how many of the next `most` steps have the learning rate of the first.
  std::uint64_t of_one_rate(std::uint64_t most) const {
    const auto& schedule = options.optimizer.schedule;
    if (schedule.constant()) return most;
    const auto rate = schedule.at(scheduled(now.origin.step));
    std::uint64_t steps = 1;
    while (steps < most && schedule.at(scheduled(now.origin.step + steps)) == rate) ++steps;
    return steps;
  }

  void gather(std::span<const std::int64_t> indices) {
    const auto& targets = options.samples->targets;
    const auto* classes = targets.scalar_type() == at::kLong ? targets.const_data_ptr<std::int64_t>() : nullptr;
    const auto* numbers = classes ? nullptr : targets.const_data_ptr<float>();
    sparse.resize(indices.size());
    for (std::size_t i = 0; i < indices.size(); ++i) {
      const auto row = options.samples->rows->at(indices[i]);
      sparse[i] = {row.columns, row.values, static_cast<std::int32_t>(row.count),
                   classes ? static_cast<float>(classes[indices[i]]) : numbers[indices[i]]};
    }
  }

  const float* shares() {
    if (!share.empty()) return share.data();
    const auto rows = static_cast<float>(options.samples->rows->rows());
    for (const auto touched : data::touches(*options.samples->rows))
      share.push_back(touched == 0 ? 0 : rows / static_cast<float>(touched));
    return share.data();
  }

  at::Tensor take_zeros(std::int64_t count) { return gpu ? gpu->take(count).zero_() : options.pool.take_zeros(count); }

  at::Tensor on_host(const at::Tensor& values) { return gpu ? gpu->download(values) : values; }

  // On an accelerator only. -----------------------------------------------------------------------------------------

  bool is_there(const at::Tensor& values) const { return !values.is_cpu() && values.device() == gpu->where(); }

  /// Returns what `values` is on the device; `last` is what it may be already.
  at::Tensor brought(const at::Tensor& values, const std::shared_ptr<const device::mark>& ready, twin& last) {
    if (last.device.defined() && last.knows(values)) return last.device;
    if (is_there(values)) {
      if (ready) ready->hold(values);
      last = {{}, values};
      return values;
    }
    last = {values, gpu->take(values.numel())};
    gpu->upload(values, last.device);
    return last.device;
  }

  /// As rules::side_by_side(), on the device.
  at::Tensor on_device(const std::vector<span>& pieces, std::int64_t count) {
    if (pieces.size() == 1 && is_there(pieces.front().values)) {
      if (pieces.front().ready) pieces.front().ready->hold(pieces.front().values);
      return pieces.front().values;
    }
    auto all = gpu->take(count);
    for (const auto& piece : pieces) {
      const auto target = all.narrow(0, piece.first, piece.values.numel());
      if (!is_there(piece.values)) {
        gpu->upload(piece.values, target);
        continue;
      }
      if (piece.ready) piece.ready->hold(piece.values);
      target.copy_(piece.values);
    }
    return all;
  }

  /// Returns `values` as they are answered: in the host's memory where that is wanted, or costs nothing. Returns
  /// whether they are there too.
  std::pair<at::Tensor, bool> answered(const at::Tensor& values, bool wanted, twin& last) {
    if (!last.device.is_same(values)) last = {{}, values};
    if (wanted && !last.host.defined()) last.host = gpu->download(values);
    return last.host.defined() ? std::pair{last.host, true} : std::pair{values, false};
  }

  void begin_on_device() {
    if (!options.memory) {
      now.values = brought(now.values, now.ready, x);
      now.ready.reset();
    }
    if (!gradient) return;
    gradient->piece.values = brought(gradient->piece.values, gradient->piece.ready, g);
    gradient->piece.ready.reset();
  }

  void end_on_device(const advance& request, advanced& result) {
    if (!options.memory) {
      std::tie(result.now.values, result.host_parameters) = answered(result.now.values, request.host_parameters, x);
      if (!result.host_parameters) result.now.ready = gpu->mark_now();
    }
    if (!result.gradient) return;
    auto& piece = result.gradient->piece;
    std::tie(piece.values, result.host_gradient) = answered(piece.values, request.host_gradient, g);
    piece.ready = result.host_gradient ? nullptr : gpu->mark_now();
  }
};

state_dict replica::state() const {
  const auto& my = *parts_;
  const auto on_the_stream = my.gpu ? my.gpu->enter() : nullptr;
  state_dict saved;
  saved.put_all("optimizer", my.optimizer->state());
  if (my.lr_scale != 1) saved.put_number("lr_scale", my.lr_scale);
  if (my.payload_bytes != 0) saved.put_count("payload_bytes", my.payload_bytes);
  return saved;
}

void replica::restore(const state_dict& saved) {
  auto& my = *parts_;
  for (const auto& [name, values] : saved.entries())
    if (!name.starts_with("optimizer/") && name != "lr_scale" && name != "payload_bytes")
      throw state_error("the entry \"" + name + "\" is unknown to a worker's computation");
  const auto lr_scale = saved.has("lr_scale") ? saved.number("lr_scale") : 1;
  const auto payload_bytes = saved.has("payload_bytes") ? saved.count("payload_bytes") : 0;
  my.optimizer->restore(saved.all("optimizer"));
  my.lr_scale = lr_scale;
  my.payload_bytes = payload_bytes;
}

bool makes_sparse_steps(const models::network_kind& model, const optimizer_options& optimizer) {
  return model.step && optimizer.name == "sgd" && optimizer.momentum == 0 && !optimizer.nesterov &&
         !optimizer.clip_norm && optimizer.l2_penalty == 0 && optimizer.undecayed.empty();
}

replica::replica(replica_options options) : parts_(std::make_unique<parts>(std::move(options))) {
  use_intra_op_threads(parts_->options.threads);
  keep_to(parts_->options.cores);
}

replica::~replica() = default;

advanced replica::run(const advance& request, const std::atomic<bool>& cancelled, const departures& leave) {
  auto& my = *parts_;
  const auto begin = std::chrono::steady_clock::now();
  const auto waited = my.waited();
  my.now = request.from;
  my.assigned = request.assigned;
  my.now.origin.sender = my.options.rank;
  my.own = false;
  my.gradient = request.gradient;
  my.loss_sum = request.loss_sum;
  my.sample_count = my.correct = my.classified = 0;
  const c10::AutoGradMode with_gradients{true};
  const auto on_the_stream = my.gpu ? my.gpu->enter() : nullptr;
  if (my.gpu) my.begin_on_device();
  if (my.options.memory) my.begin_in_memory();

  for (const auto& answer : request.with) my.take_in(answer);
  std::uint64_t round = 0;
  if (my.are_sparse_steps(request))
    while (round < request.times && (round == 0 || !cancelled)) round += my.sparse_steps(request.times - round);
  for (; round < request.times && (round == 0 || !cancelled); ++round)
    for (std::size_t i = 0; i < request.verbs.size(); ++i) {
      const auto last = i + 1 == request.verbs.size();
      if (request.verbs[i] == verb::apply)
        my.apply();
      else
        my.compute_gradient(last ? request.leaving : departure{}, leave);
    }
  if (my.steps_beside_memory()) my.give_back();
  advanced result{.now = std::move(my.now),
                  .gradient = std::move(my.gradient),
                  .loss_sum = my.loss_sum,
                  .sample_count = my.sample_count,
                  .correct = my.correct,
                  .classified = my.classified,
                  .payload_bytes = my.payload_bytes};
  my.now = {};
  my.gradient.reset();
  if (my.options.memory) my.end_in_memory(request, result);
  if (my.gpu) my.end_on_device(request, result);
  if (my.options.loading) {
    result.data_wait = my.waited() - waited;
    result.busy = seconds_since(begin);
  }
  return result;
}

}  // namespace troupe
