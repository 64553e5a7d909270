#include "troupe/actors/service/evaluator.hpp"

#include "troupe/algorithms/support/intra_op.hpp"

#include <caf/all.hpp>

#include <atomic>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace troupe {

namespace {

/// An evaluation that has not been answered.
struct open_evaluation {
  caf::typed_response_promise<evaluation> promise;
  bool answered{false};

  void cancel() {
    if (!std::exchange(answered, true)) promise.deliver(make_error(errc::failed, "the evaluation was cancelled"));
  }
};

struct evaluator_state {
  static inline const char* name = "evaluator";
  std::shared_ptr<std::unique_ptr<models::network>> network;  ///< Made and used on the lane only.
  std::shared_ptr<std::atomic<bool>> cancelled;
  std::vector<std::shared_ptr<open_evaluation>> open;
  std::unique_ptr<lane> where;

  ~evaluator_state() {
    if (cancelled) *cancelled = true;  // nothing is waiting for the current job
  }
};

evaluator_actor::behavior_type evaluator(evaluator_actor::stateful_pointer<evaluator_state> self,
                                         evaluator_options options, std::shared_ptr<std::unique_ptr<lane>> where) {
  report_exceptions(self);
  self->state.network = std::make_shared<std::unique_ptr<models::network>>();
  self->state.cancelled = std::make_shared<std::atomic<bool>>(false);
  self->state.where = std::move(*where);
  return {
      [self, options](evaluate_atom, const snapshot& weights) -> caf::result<evaluation> {
        const auto asked = std::make_shared<open_evaluation>();
        asked->promise = self->make_response_promise<evaluation>();
        self->state.open.push_back(asked);
        auto work = [weights, options, network = self->state.network,
                     cancelled = self->state.cancelled]() -> std::optional<evaluation> {
          if (!options.computes)
            return evaluation{.step = weights.origin.step, .loss = std::numeric_limits<double>::quiet_NaN()};
          if (!*network) {
            use_intra_op_threads(options.threads);
            *network = models::make_network(*options.model, options.shape, options.seed);
          }
          // A model's own code may write its buffers during evaluation too, and a snapshot is shared.
          const auto& layout = options.layout;
          const auto own = layout.total > layout.parameter_end ? weights.values.clone() : weights.values;
          models::bind_weights(**network, layout, own);
          auto result =
              rules::evaluate(**network, *options.samples, options.scale, options.loss, options.how, cancelled.get());
          if (result) result->step = weights.origin.step;
          return result;
        };
        const task description{.what = task::kind::evaluate, .samples = options.samples->size()};
        then_on_lane(self, *self->state.where, description, std::move(work),
                     [self, asked](std::optional<evaluation> result) {
                       std::erase(self->state.open, asked);
                       if (!result) return asked->cancel();
                       if (!std::exchange(asked->answered, true)) asked->promise.deliver(*result);
                     });
        return asked->promise;
      },
      [self](cancel_atom) {
        *self->state.cancelled = true;
        // Answers immediately, because the model's own code, which runs on the lane, may never return.
        for (const auto& asked : std::exchange(self->state.open, {})) asked->cancel();
      },
      [](done_atom, const completion& done) { (*done.run)(); },
  };
}

}  // namespace

evaluator_actor spawn_evaluator(caf::actor_system& system, evaluator_options options, std::unique_ptr<lane> where) {
  return system.spawn(evaluator, std::move(options), std::make_shared<std::unique_ptr<lane>>(std::move(where)));
}

}  // namespace troupe
