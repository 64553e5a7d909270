#include "troupe/actors/compute/compute.hpp"

#include "troupe/actors/replay/lock_order.hpp"
#include "troupe/algorithms/rules/agreement.hpp"

#include <caf/all.hpp>

#include <algorithm>
#include <atomic>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>

namespace troupe {

namespace {

using engine_pointer = std::shared_ptr<std::unique_ptr<replica>>;

struct compute_state {
  static inline const char* name = "compute";
  engine_pointer engine;  ///< Made and used on the lane only.
  std::shared_ptr<std::atomic<bool>> cancelled;
  std::unique_ptr<lane> where;

  ~compute_state() {
    if (cancelled) *cancelled = true;  // nothing is waiting for the current job
  }
};

using compute_pointer = compute_actor::stateful_pointer<compute_state>;

/// Passes an answer from the actor to its lane, which blocks until the answer arrives.
struct reply {
  outcome answer;
  std::string error;
};

/// Returns a function with which a job on the lane sends a bucket to the port through its actor and waits for the
/// answer.
std::function<outcome(part, double)> through(compute_pointer self, const norm_contact& norms) {
  const auto meeting = self->state.where->meeting_point();
  // A weak pointer, because the actor owns the replica, which owns this function.
  const caf::weak_actor_ptr owner{self->ctrl()};
  return [self, owner, norms, meeting, clock = self->state.where->clock()](const part& own, double computed) {
    const auto received = std::make_shared<reply>();
    const auto ask = [self, norms, meeting, own, received] {
      self->send(norms.port, part_atom_v, own);
      // The port enforces the deadline and reports which ranks are missing; this timeout only guards against a port
      // that does not answer.
      self->request(norms.port, 2 * norms.timeout, await_atom_v, own.origin, own.which)
          .then(
              [received, meeting](outcome& answer) {
                received->answer = std::move(answer);
                meeting->resume();
              },
              [received, meeting](const caf::error& why) {
                received->error = describe(why);
                meeting->resume();
              });
    };
    clock->when_computed(computed, [owner, ask] {
      if (const auto alive = caf::actor_cast<caf::actor>(owner))
        caf::anon_send(alive, done_atom_v, completion{std::make_shared<std::function<void()>>(ask)});
    });
    if (!meeting->wait())
      throw std::runtime_error("the run ended while a batch norm was waiting for the other workers");
    if (!received->error.empty())
      throw std::runtime_error("a batch norm is waiting for the other workers: " + received->error);
    return std::move(received->answer);
  };
}

using shared_options = std::shared_ptr<const replica_options>;

/// Returns the replica, which is made at the first use. Called on the lane only.
replica& engine_of(const engine_pointer& engine, const shared_options& options) {
  if (!*engine) *engine = std::make_unique<replica>(options);
  return **engine;
}

/// Describes the work of a request.
task task_of(const advance& request, const replica_options& options) {
  const auto count = [&](verb operation) {
    return static_cast<std::int64_t>(std::count(request.verbs.begin(), request.verbs.end(), operation)) * request.times;
  };
  const auto passes_over_x = static_cast<std::int64_t>(request.with.size()) + count(verb::apply);
  return {.what = task::kind::advance,
          .gradients = static_cast<std::uint64_t>(count(verb::gradient)),
          .samples = options.sampling.batch_size,
          .elements = passes_over_x * options.layout.parameter_end};
}

compute_actor::behavior_type compute(compute_pointer self, replica_options given, const norm_contact& norms,
                                     std::shared_ptr<std::unique_ptr<lane>> where) {
  report_exceptions(self);
  self->state.engine = std::make_shared<std::unique_ptr<replica>>();
  self->state.cancelled = std::make_shared<std::atomic<bool>>(false);
  self->state.where = std::move(*where);
  if (norms.port) given.norms.bring = through(self, norms);
  if (given.memory_order)
    given.memory_lock = lock_in(std::exchange(given.memory_order, nullptr), static_cast<std::uint32_t>(given.rank),
                                self->state.where->meeting_point());
  const auto options = std::make_shared<const replica_options>(std::move(given));
  return {
      [self, options](advance_atom, const advance& request, const caf::strong_actor_ptr& port) {
        auto work = [request, port, options, engine = self->state.engine, cancelled = self->state.cancelled,
                     clock = self->state.where->clock()] {
          const auto leave = [&](const part& bucket, double computed) {
            clock->when_computed(
                computed, [port, bucket] { caf::anon_send(caf::actor_cast<peer_port>(port), part_atom_v, bucket); });
          };
          return engine_of(engine, options).run(request, *cancelled, leave);
        };
        return on_lane<advanced>(self, *self->state.where, task_of(request, *options), std::move(work));
      },
      [self](state_atom) {
        // A replica that has not been made has taken no step.
        auto work = [engine = self->state.engine] { return *engine ? (*engine)->state() : state_dict{}; };
        return on_lane<state_dict>(self, *self->state.where, {.what = task::kind::state}, std::move(work));
      },
      [self, options](restore_atom, const state_dict& saved) -> caf::result<void> {
        auto work = [saved, options, engine = self->state.engine] {
          engine_of(engine, options).restore(saved);
          return caf::unit;
        };
        return on_lane<caf::unit_t>(self, *self->state.where, {.what = task::kind::state}, std::move(work));
      },
      [self, options](verify_atom, const snapshot& replica) {
        auto work = [replica, options] { return rules::digests_of(replica.values, options->layout); };
        const task description{.what = task::kind::digest, .elements = options->layout.parameter_end};
        return on_lane<digest_list>(self, *self->state.where, description, std::move(work));
      },
      [self](cancel_atom) { *self->state.cancelled = true; },
      [](done_atom, const completion& done) { (*done.run)(); },
  };
}

}  // namespace

compute_actor spawn_compute(caf::actor_system& system, replica_options options, norm_contact norms,
                            std::unique_ptr<lane> where) {
  return system.spawn(compute, std::move(options), std::move(norms),
                      std::make_shared<std::unique_ptr<lane>>(std::move(where)));
}

}  // namespace troupe
