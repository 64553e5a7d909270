#include "troupe/runtime/emulation/links.hpp"

#include "troupe/actors/wire/error.hpp"
#include "troupe/actors/wire/lane.hpp"

#include <caf/all.hpp>

#include <memory>
#include <utility>

namespace troupe::emulation {

namespace {

struct receiving_state {
  static inline const char* name = "emulated interface";
};

template <class Self>
time now(Self* self) {
  return std::chrono::duration_cast<time>(self->clock().now().time_since_epoch());
}

template <class Self>
void pass_on(Self* self, const peer_port& to, time when, part piece) {
  const auto wait = when - now(self);
  if (wait.count() > 0)
    self->delayed_send(to, wait, part_atom_v, std::move(piece));
  else
    self->send(to, part_atom_v, std::move(piece));
}

std::int64_t bytes_of(const part& piece) {
  return static_cast<std::int64_t>(piece.piece.values.nbytes());
}

peer_port::behavior_type receiving_half(peer_port::stateful_pointer<receiving_state> self,
                                        const std::shared_ptr<const routes>& from, const peer_port& port) {
  report_exceptions(self);
  return {[=](part_atom, const part& piece) {
    const auto over = from->find(static_cast<std::uint32_t>(piece.origin.sender));
    const auto when = over == from->end() ? now(self) : receive(over->second, bytes_of(piece), now(self));
    pass_on(self, port, when, piece);
  }};
}

}  // namespace

decltype(port_options::departure) departures_over(senders links) {
  if (links.empty()) return {};
  return [over = std::make_shared<senders>(std::move(links))](rank_id to, const part& piece, time now) {
    const auto peer = over->find(to);
    if (peer == over->end()) return time{0};
    auto& [by, meter, answered] = peer->second;
    if (meter) meter->add(bytes_of(piece), piece.origin.version);
    if (answered) answered->answer(piece.origin.version);
    return by.send(bytes_of(piece), now) - now;
  };
}

peer_port spawn_receiving_half(caf::actor_system& system, routes from, peer_port port) {
  return system.spawn(receiving_half, std::make_shared<const routes>(std::move(from)), std::move(port));
}

}  // namespace troupe::emulation
