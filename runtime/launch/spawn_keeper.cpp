#include "troupe/runtime/launch/spawn_keeper.hpp"

#include "troupe/runtime/seats/seat.hpp"

#include <caf/all.hpp>

#include <chrono>
#include <functional>
#include <memory>
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

completion completion_of(std::function<void()> what) {
  return {std::make_shared<std::function<void()>>(std::move(what))};
}

/// Asks the program for its state, and calls `then` once in the context of the actor, with an error if the state does
/// not arrive in time.
void ask_program(keeper_pointer self, guests::seat& seat, std::chrono::milliseconds timeout,
                 std::function<void(const caf::expected<at::Tensor>&)> then) {
  const auto answer = [then = std::move(then), done = std::make_shared<bool>(false)](const auto& state) {
    if (!std::exchange(*done, true)) then(state);
  };
  seat.ask_state([me = caf::actor_cast<keeper_actor>(self), answer](const at::Tensor& bytes) {
    caf::anon_send(me, done_atom_v, completion_of([=] { answer(caf::expected<at::Tensor>{bytes}); }));
  });
  auto late = make_error(errc::timed_out, "actor " + seat.actor() + " has not sent its state within " +
                                              std::to_string(timeout.count()) + " ms (run.timeout)");
  // Earlier than the coordinator, which does not know the actor, gives up.
  self->delayed_send(self, timeout - timeout / 8, done_atom_v,
                     completion_of([=] { answer(caf::expected<at::Tensor>{late}); }));
}

keeper_actor::behavior_type keeper(keeper_pointer self, const port_actor& stand_in,
                                   const std::shared_ptr<guests::seat>& seat, std::chrono::milliseconds timeout) {
  report_exceptions(self);
  return {
      [](result_atom, std::uint64_t) -> caf::result<holding> {
        return make_error(errc::mismatch, "an actor in another program holds no result");
      },
      [=](state_atom) -> caf::result<state_dict> {
        auto promise = self->make_response_promise<state_dict>();
        self->request(stand_in, timeout, state_atom_v)
            .then(
                [=](const state_dict& state) {
                  ask_program(self, *seat, timeout, [=](const caf::expected<at::Tensor>& bytes) mutable {
                    if (!bytes) {
                      promise.deliver(bytes.error());
                      return;
                    }
                    auto both = state;
                    if (bytes->numel() > 0) both.put(of_program, *bytes);
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
                          const std::shared_ptr<guests::seat>& seat, std::chrono::milliseconds timeout) {
  return system.spawn(keeper, stand_in, seat, timeout);
}

}  // namespace troupe
