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

/// An answer on its way from the actor to its lane, which stands still until it is there.
struct reply {
  outcome answer;
  std::string error;
};

/// Has the lane's job ask the port by way of its actor, and wait.
std::function<outcome(part, double)> through(compute_pointer self, const norm_contact& norms) {
  const auto meeting = self->state.where->meeting_point();
  // The replica that holds this is held by the actor.
  const caf::weak_actor_ptr owner{self->ctrl()};
  return [self, owner, norms, meeting, clock = self->state.where->clock()](const part& own, double computed) {
    const auto came = std::make_shared<reply>();
    const auto ask = [self, norms, meeting, own, came] {
      self->send(norms.port, part_atom_v, own);
      // The port enforces the deadline and knows which ranks are missing; this timeout only guards against a port that
      // does not answer.
      self->request(norms.port, 2 * norms.timeout, await_atom_v, own.origin, own.which)
          .then(
              [came, meeting](outcome& answer) {
                came->answer = std::move(answer);
                meeting->resume();
              },
              [came, meeting](const caf::error& why) {
                came->error = describe(why);
                meeting->resume();
              });
    };
    clock->when_computed(computed, [owner, ask] {
      if (const auto alive = caf::actor_cast<caf::actor>(owner))
        caf::anon_send(alive, done_atom_v, completion{std::make_shared<std::function<void()>>(ask)});
    });
    if (!meeting->wait())
      throw std::runtime_error("the run ended while a batch norm was waiting for the other workers");
    if (!came->error.empty()) throw std::runtime_error("a batch norm is waiting for the other workers: " + came->error);
    return std::move(came->answer);
  };
}

using shared_options = std::shared_ptr<const replica_options>;

/// Returns the replica, made at the first use. On the lane only.
replica& engine_of(const engine_pointer& engine, const shared_options& options) {
  if (!*engine) *engine = std::make_unique<replica>(options);
  return **engine;
}

/// Describes the work on a request.
task task_of(const advance& request, const replica_options& options) {
  const auto count = [&](verb one) {
    return static_cast<std::int64_t>(std::count(request.verbs.begin(), request.verbs.end(), one)) * request.times;
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
        const task what{.what = task::kind::digest, .elements = options->layout.parameter_end};
        return on_lane<digest_list>(self, *self->state.where, what, std::move(work));
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
