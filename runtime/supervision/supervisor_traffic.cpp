// The traffic between the actors of this node and those of other nodes, through the links.
#include "troupe/runtime/supervision/supervisor_state.hpp"

#include <caf/all.hpp>

#include <utility>

namespace troupe::supervision {

namespace {

using transport::frame_kind;

/// The actors that receive frames.
struct receivers {
  crew ours;
  std::uint32_t first_rank{0};  ///< Rank of the first of our workers.
  supervisor_actor supervisor{};
  transport::state_assembler states{}, copies{};
};

void receive_state(receivers& to, const transport::frame& arrived) {
  auto whole = to.states.add(arrived.as_state_piece());
  if (!whole) return;
  if (to.ours.coordinator)
    return caf::anon_send(to.ours.coordinator, state_atom_v, whole->rank, whole->number, std::move(whole->state));
  const auto& worker = to.ours.workers.at(static_cast<std::uint32_t>(whole->rank) - to.first_rank);
  caf::anon_send(worker, restore_atom_v, std::move(whole->state));
}

void receive_copy(receivers& to, const transport::frame& arrived) {
  auto whole = to.copies.add(arrived.as_state_piece());
  if (whole) caf::anon_send(to.supervisor, checkpoint_atom_v, whole->number, std::move(whole->state));
}

void receive_snapshot(receivers& to, const transport::frame& arrived) {
  if (to.ours.coordinator) caf::anon_send(to.ours.coordinator, result_atom_v, arrived.as_snapshot());
}

void receive_part(receivers& to, const transport::frame& arrived, std::shared_ptr<const void> receipt) {
  const auto& entrances = to.ours.entrances[arrived.header.which.place];
  const auto port = entrances.find(arrived.header.to);
  if (port == entrances.end())
    throw transport::frame_error("received a frame for a rank that is not a member of the exchange");
  auto piece = arrived.as_part();
  piece.receipt = std::move(receipt);
  caf::anon_send(port->second, part_atom_v, std::move(piece));
}

/// Passes a frame to the actor that it is for. Throws frame_error, which closes the connection.
void receive(receivers& to, const transport::frame& arrived, std::shared_ptr<const void> receipt) {
  if (arrived.header.kind == frame_kind::state) return receive_state(to, arrived);
  if (arrived.header.kind == frame_kind::copy) return receive_copy(to, arrived);
  if (arrived.header.kind == frame_kind::snapshot) return receive_snapshot(to, arrived);
  receive_part(to, arrived, std::move(receipt));
}

}  // namespace

std::function<peer_port(std::uint32_t)> proxies_of_ports(supervisor_pointer self) {
  return [self](std::uint32_t rank) {
    const auto& my = self->state;
    return transport::spawn_port_proxy(self->home_system(), my.options.links.tensors, my.run_plan().node_of(rank),
                                       rank);
  };
}

std::function<void(std::uint64_t, const state_dict&)> sender_of_copies(supervisor_pointer self) {
  const auto& options = self->state.options;
  constexpr std::uint32_t second = 1;
  if (!options.run_plan->keeps_copies(second)) return {};
  // A job of the recorder's lane may outlive the actors and must not keep the links alive.
  return [weak = std::weak_ptr(options.links.tensors)](std::uint64_t step, const state_dict& files) {
    for (const auto& piece : transport::cut_copy(step, files))
      if (const auto links = weak.lock()) links->send(second, piece);
  };
}

void keep_copy(supervisor_pointer self, std::uint64_t step, const state_dict& files) {
  auto& my = self->state;
  if (!my.options.keep_copy || my.now == phase::ending) return;
  if (!my.copies) my.copies = my.options.lanes->make({{.what = role::copies, .rank = my.me()}, "copies"});
  then_on_lane(
      self, *my.copies, {.what = task::kind::write}, [keep = my.options.keep_copy, files] { return keep(files), true; },
      [self, step](bool) { self->state.tell_first(control::copied{step}); });
}

transport::control_links::listener control_listener_of(supervisor_pointer self) {
  const auto me = caf::actor_cast<supervisor_actor>(self);
  const auto tell = [me](auto&& event) { caf::anon_send(me, link_event{std::forward<decltype(event)>(event)}); };
  return {.visited =
              [to = self->state.reception](transport::visitor_id visitor, control::introduction&& who) {
                caf::anon_send(to, visit{visitor, std::move(who)});
              },
          .reached_first = [tell] { tell(link_event::reached_first{}); },
          .foreign_first = [tell] { tell(link_event::foreign_first{}); },
          .heard =
              [tell](std::uint32_t node, control::message&& message) {
                tell(link_event::heard{node, std::move(message)});
              },
          .parted =
              [tell](std::uint32_t node, const std::string& why) {
                tell(link_event::parted{node, why});
              },
          .warned = self->state.options.report};
}

transport::tensor_links::listener tensor_listener_of(supervisor_pointer self) {
  const auto& my = self->state;
  const auto me = caf::actor_cast<supervisor_actor>(self);
  const auto first_rank = my.run_plan().nodes[my.me()].first_rank;
  const auto to = std::make_shared<receivers>(receivers{.ours = my.ours, .first_rank = first_rank, .supervisor = me});
  return {.linked = [me] { caf::anon_send(me, link_event{link_event::linked{}}); },
          .lost =
              [me](std::uint32_t node, const std::string& why) {
                caf::anon_send(me, link_event{link_event::lost{node, why}});
              },
          .arrived = [to](transport::frame&& arrived,
                          std::shared_ptr<const void> receipt) { receive(*to, arrived, std::move(receipt)); }};
}

}  // namespace troupe::supervision
