// How a port makes its member: at the beginning, from a checkpoint, and again when the members change.
#include "troupe/actors/port/port_state.hpp"

#include <caf/all.hpp>

#include <string>
#include <utility>

namespace troupe {

void make_member(port_state& my) {
  auto& own = my.options.own;
  my.algorithm = my.make(own);
  constexpr auto most = cadence::never;  // so that adding a step cannot overflow
  const auto interval = own.due.longest_interval();
  if (const auto exchanges = my.algorithm->steps_ahead())
    my.most_ahead = *exchanges > most / interval ? most : *exchanges * interval;
  else
    my.most_ahead.reset();
  own.initial.reset();  // the member has taken what it needs
  own.restored.reset();
}

state_dict state_of(const port_state& my, const state_dict& of_member) {
  state_dict state;
  state.put_count("step", my.step);
  state.put_count("payload_bytes", my.payload_bytes - my.bytes_under_way);
  state.put_all("member", of_member);
  return state;
}

void restore(port_state& my, const state_dict& state) {
  const auto step = state.count("step");
  const auto& due = my.options.own.due;
  if (!due.due(step) && step != cadence::never)
    throw state_error("the step " + std::to_string(step) + " has no exchange");
  my.options.own.first_step = step - due.lead;
  my.options.own.restored = std::make_shared<const state_dict>(state.all("member"));
  my.payload_bytes = state.count("payload_bytes");
  my.step = step;
  make_member(my);
}

caf::result<exchange_standing> pause(port_pointer self) {
  auto& my = self->state;
  if (!my.reform || my.options.answers_buckets || my.options.own.among.servers > 0)
    return make_error(errc::mismatch, my.options.name + ": cannot be re-formed");
  my.reform->paused = true;
  auto promise = self->make_response_promise<exchange_standing>();
  // On the lane, so that the parts accepted before are processed first.
  with_member(
      self, {.what = task::kind::state}, [](member&) { return true; },
      [self, promise](bool) mutable {
        const auto& my = self->state;
        promise.deliver(exchange_standing{my.step, my.reform->last});
      });
  return promise;
}

caf::result<void> reform(port_pointer self, const reformation& now) {
  auto& my = self->state;
  auto& own = my.options.own;
  if (!my.is_paused()) return make_error(errc::mismatch, my.options.name + ": received reform without pause");
  if (now.among.generation != own.among.generation + 1)
    return make_error(errc::mismatch, my.options.name + ": received generation " +
                                          std::to_string(now.among.generation) + "; expected " +
                                          std::to_string(own.among.generation + 1));
  my.reform->paused = false;
  for (auto& [which, request] : my.waiting) request.ticks = 0;
  own.among = now.among;
  own.common.reset();  // it depends on the number of members
  my.options.peers.clear();
  my.peers.clear();
  for (const auto& peer : now.peers) my.peers.push_back(caf::actor_cast<peer_port>(peer));
  own.first_step = (now.missed ? own.due.next_due(my.step + 1) : my.step) - own.due.lead;
  make_member(my);
  my.answers.clear();
  if (now.missed) {
    auto& answer = answers_of(my, my.step).front();
    answer.what = now.missed->what;
    answer.sample_count = now.missed->sample_count;
    for (const auto& piece : now.missed->pieces) {
      answer.pieces.emplace(piece.first, piece);
      answer.elements += piece.values.numel();
    }
    if (!my.waiting.empty()) answer_worker(self);
  } else {
    for (const auto& piece : my.reform->contributed) hand_to_member(self, piece);
  }
  for (const auto& piece : std::exchange(my.reform->early, {})) take(self, piece);
  return caf::unit;
}

}  // namespace troupe
