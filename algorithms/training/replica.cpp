#include "troupe/algorithms/training/replica.hpp"

#include "troupe/algorithms/support/cores.hpp"
#include "troupe/algorithms/support/intra_op.hpp"
#include "troupe/algorithms/training/engine.hpp"
#include "troupe/algorithms/training/placement.hpp"
#include "troupe/algorithms/training/sparse_steps.hpp"
#include "troupe/algorithms/training/worker_training.hpp"
#include "troupe/data/formats/cpu_time.hpp"

#include <c10/core/GradMode.h>

#include <chrono>
#include <utility>

namespace troupe {

struct replica::parts {
  explicit parts(std::shared_ptr<const replica_options> given) : options(std::move(given)) {
    if (!options->engines) own = std::make_unique<engine>(*options);
  }

  const std::shared_ptr<const replica_options> options;
  placement where{options->accelerator, options->pool};
  worker_training work{*options, where};
  sparse_stepper sparse{*options};
  std::unique_ptr<engine> own;  ///< Engine of this replica; null if it shares engines.
};

namespace {

/// The engine of a replica while it runs.
class used_engine {
 public:
  used_engine(std::unique_ptr<engine>& own, const replica_options& options)
      : own_(own), pool_(options.engines.get()), engine_(pool_ ? pool_->take(options) : std::move(own)) {}
  ~used_engine() { pool_ ? pool_->put_back(std::move(engine_)) : void(own_ = std::move(engine_)); }
  used_engine(const used_engine&) = delete;
  used_engine& operator=(const used_engine&) = delete;

  engine& operator*() const { return *engine_; }

 private:
  std::unique_ptr<engine>& own_;
  engine_pool* pool_;
  std::unique_ptr<engine> engine_;
};

}  // namespace

replica::replica(replica_options options) : replica(std::make_shared<const replica_options>(std::move(options))) {}

replica::replica(std::shared_ptr<const replica_options> options) : parts_(std::make_unique<parts>(std::move(options))) {
  use_intra_op_threads(parts_->options->threads);
  keep_to(parts_->options->cores);
}

replica::~replica() = default;

advanced replica::run(const advance& request, const std::atomic<bool>& cancelled, const bucket_sink& leave) {
  const auto& options = *parts_->options;
  auto& work = parts_->work;
  auto& sparse = parts_->sparse;
  const used_engine used{parts_->own, options};
  auto& network = *used;
  using clock = std::chrono::steady_clock;
  const auto begin = clock::now();
  const auto used_before = data::cpu_time_of_thread();
  const auto waited = work.samples.waited(), loaded_before = work.samples.cpu_seconds_of_threads();
  const c10::AutoGradMode with_gradients{true};
  const auto on_the_stream = parts_->where.enter();
  work.begin(network, request);
  for (const auto& answer : request.with) work.take_in(network, answer);
  std::uint64_t round = 0;
  if (options.computes && are_sparse_steps(options, work, request))
    while (round < request.times && (round == 0 || !cancelled)) round += sparse.run(work, request.times - round);
  for (; round < request.times && (round == 0 || !cancelled); ++round)
    for (std::size_t i = 0; i < request.verbs.size(); ++i) {
      const auto last = i + 1 == request.verbs.size();
      const auto since = clock::now();
      if (request.verbs[i] == verb::apply)
        work.apply();
      else
        work.compute_gradient(network, last ? request.leaving : bucket_destination{}, leave);
      const auto* name = request.verbs[i] == verb::apply ? "apply" : "gradient";
      if (request.verbs.size() * request.times > 1)
        options.track.add(name, trace_time_of(since), trace_time_of(clock::now()));
    }
  auto result = work.end(network, request);
  if (options.loading) {
    result.data_wait = work.samples.waited() - waited;
    result.loading_cpu = work.samples.cpu_seconds_of_threads() - loaded_before;
    result.busy = std::chrono::duration<double>(clock::now() - begin).count();
    result.cpu = std::chrono::duration<double>(data::cpu_time_of_thread() - used_before).count();
  }
  return result;
}

state_dict replica::state() const {
  const auto on_the_stream = parts_->where.enter();
  return parts_->work.state();
}

void replica::restore(const state_dict& saved) {
  parts_->work.restore(saved);
}

}  // namespace troupe
