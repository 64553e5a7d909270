#include "troupe/actors/compute.hpp"

#include "troupe/actors/port.hpp"

#include <caf/all.hpp>

#include <atomic>
#include <utility>

namespace troupe {

namespace {

struct compute_state {
  static inline const char* name = "compute";
  std::shared_ptr<std::unique_ptr<replica>> engine;  ///< Made and used on the lane only.
  std::shared_ptr<std::atomic<bool>> cancelled;
  std::unique_ptr<lane> where;

  ~compute_state() {
    if (cancelled) *cancelled = true;  // nobody waits for what is under way
  }
};

compute_actor::behavior_type compute(compute_actor::stateful_pointer<compute_state> self, replica_options options,
                                     std::shared_ptr<std::unique_ptr<lane>> where) {
  report_exceptions(self);
  self->state.engine = std::make_shared<std::unique_ptr<replica>>();
  self->state.cancelled = std::make_shared<std::atomic<bool>>(false);
  self->state.where = std::move(*where);
  return {
      [self, options](advance_atom, const advance& request) {
        auto work = [request, options, engine = self->state.engine, cancelled = self->state.cancelled] {
          if (!*engine) *engine = std::make_unique<replica>(options);
          const auto leave = [&](part bucket) {
            caf::anon_send(caf::actor_cast<peer_port>(request.leaving.port), part_atom_v, std::move(bucket));
          };
          return (*engine)->run(request, *cancelled, leave);
        };
        return on_lane<advanced>(self, *self->state.where, std::move(work));
      },
      [self](cancel_atom) { *self->state.cancelled = true; },
      [](done_atom, const completion& done) { (*done.run)(); },
  };
}

}  // namespace

compute_actor spawn_compute(caf::actor_system& system, replica_options options, std::unique_ptr<lane> where) {
  return system.spawn(compute, std::move(options), std::make_shared<std::unique_ptr<lane>>(std::move(where)));
}

}  // namespace troupe
