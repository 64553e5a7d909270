// How a worker sends its state, and how it continues from one.
#include "troupe/actors/worker/worker_state.hpp"
#include "troupe/algorithms/support/assert.hpp"

#include <caf/all.hpp>

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <utility>

namespace troupe {

namespace {

/// Calls `ask(actor, name)` for compute and each port. `name` is the key of the actor's state in the worker's state.
template <class Ask>
void for_each_part(worker_pointer self, Ask ask) {
  auto& my = self->state;
  ask(my.contacts.compute, std::string{"compute"});
  for (std::size_t place = 0; place < my.contacts.ports.size(); ++place)
    if (my.contacts.ports[place]) ask(my.contacts.ports[place], "port " + my.options.exchanges.at(place));
}

}  // namespace

void send_state(worker_pointer self) {
  struct collected {
    state_dict all;
    std::size_t open{0};
  };
  auto& my = self->state;
  TROUPE_ASSERT(!my.in_step && !my.exchanging && my.answers.empty(), "a state is given between two steps");
  const auto number = *std::exchange(my.state_request, std::nullopt);
  const auto gathered = std::make_shared<collected>(collected{my.state()});
  for_each_part(self, [&](const auto& actor, const std::string& name) {
    gathered->open += 1;
    self->request(actor, my.options.timeout, state_atom_v)
        .then(
            [self, gathered, name, number](const state_dict& state) {
              gathered->all.put_all(name, state);
              if (--gathered->open > 0) return;
              self->send(self->state.contacts.states, state_atom_v, self->state.options.rank, number, gathered->all);
            },
            [self, name](const caf::error& why) { lose(self, name, why); });
  });
}

void restore_all(worker_pointer self, const state_dict& from) {
  auto& my = self->state;
  if (my.in_step || my.asked != compute_request::none)
    throw std::logic_error("received a state to restore while a step is under way");
  my.restore(from, my.options.run);
  my.begun = my.granted = my.completed;
  const auto open = std::make_shared<std::size_t>(0);
  for_each_part(self, [&](const auto& actor, const std::string& name) {
    *open += 1;
    self->request(actor, my.options.timeout, restore_atom_v, from.all(name))
        .then(
            [self, open] {
              if (--*open > 0) return;
              const auto& my = self->state;
              self->send(my.contacts.recorder, control::progress{my.options.rank, my.completed});
              self->send(my.contacts.coordinator, control::restored{my.options.rank});
            },
            [self, name](const caf::error& why) { lose(self, name, why); });
  });
}

}  // namespace troupe
