#include "troupe/runtime/launch/spawn_keeper.hpp"

#include "troupe/runtime/seats/seat.hpp"

#include <caf/all.hpp>

#include <functional>
#include <string>
#include <utility>

namespace troupe {

namespace {

constexpr auto* of_program = "program";  ///< Name of the state of the program in that of the stand-in.

using keeper_actor = holder_actor::extend<caf::reacts_to<done_atom, completion>>;

struct keeper_state {
  static inline const char* name = "keeper";
};

using keeper_pointer = keeper_actor::stateful_pointer<keeper_state>;

/// Asks the program for its state, and calls `then` in the context of the actor.
void ask_program(keeper_pointer self, guests::seat& seat, std::function<void(const at::Tensor&)> then) {
  seat.ask_state([me = caf::actor_cast<keeper_actor>(self), then = std::move(then)](const at::Tensor& bytes) {
    caf::anon_send(me, done_atom_v, completion{std::make_shared<std::function<void()>>([=] { then(bytes); })});
  });
}

keeper_actor::behavior_type keeper(keeper_pointer self, const port_actor& stand_in,
                                   const std::shared_ptr<guests::seat>& seat) {
  report_exceptions(self);
  return {
      [](result_atom, std::uint64_t) -> caf::result<holding> {
        return make_error(errc::mismatch, "an actor in another program holds no result");
      },
      [=](state_atom) -> caf::result<state_dict> {
        auto promise = self->make_response_promise<state_dict>();
        self->request(stand_in, caf::infinite, state_atom_v)
            .then(
                [=](const state_dict& state) {
                  ask_program(self, *seat, [=](const at::Tensor& bytes) mutable {
                    auto both = state;
                    if (bytes.numel() > 0) both.put(of_program, bytes);
                    promise.deliver(std::move(both));
                  });
                },
                [=](const caf::error& why) mutable { promise.deliver(why); });
        return promise;
      },
      [=](restore_atom, const state_dict& state) -> caf::result<void> {
        state_dict of_stand_in;
        for (const auto& [name, values] : state.entries())
          name == of_program ? seat->restore(values) : of_stand_in.put(name, values);
        return self->delegate(stand_in, restore_atom_v, std::move(of_stand_in));
      },
      [](done_atom, const completion& done) { (*done.run)(); },
  };
}

}  // namespace

holder_actor spawn_keeper(caf::actor_system& system, const port_actor& stand_in,
                          const std::shared_ptr<guests::seat>& seat) {
  return system.spawn(keeper, stand_in, seat);
}

}  // namespace troupe
