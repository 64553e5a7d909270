#include "troupe/runtime/transport/proxy.hpp"

#include "troupe/runtime/transport/state_frames.hpp"

#include <caf/all.hpp>

#include <utility>

namespace troupe::transport {

namespace {

struct port_proxy_state {
  static inline const char* name = "port proxy";
};

struct direction_proxy_state {
  static inline const char* name = "direction proxy";
};

struct worker_proxy_state {
  static inline const char* name = "worker proxy";
  caf::typed_response_promise<std::uint64_t> halted;
};

direction_actor::behavior_type direction_proxy(direction_actor::stateful_pointer<direction_proxy_state> self,
                                               const std::shared_ptr<links>& links) {
  report_exceptions(self);
  const auto tell = [links](const control::message& what) { links->tell(first_node, what); };
  return {
      [tell](reached_atom, const milestone& reached) { tell(control::reached{reached}); },
      [tell](checkpoint_atom, rank_id rank, std::uint64_t step) {
        tell(control::at_checkpoint{rank, step});
      },
      [tell](restore_atom, rank_id rank) { tell(control::restored{rank}); },
      [tell](verify_atom, rank_id rank, std::uint64_t step, const digest_list& digests) {
        tell(control::verified{rank, step, digests});
      },
      [links](result_atom, const snapshot& result) { links->send(first_node, result); },
      [links](state_atom, rank_id rank, std::uint64_t number, const state_dict& state) {
        for (const auto& piece : cut(rank, number, state)) links->send(first_node, piece);
      },
      [tell](progress_atom, rank_id rank, std::uint64_t steps) {
        tell(control::progress{rank, steps});
      },
  };
}

worker_proxy::behavior_type worker_proxy_of(worker_proxy::stateful_pointer<worker_proxy_state> self,
                                            const std::shared_ptr<links>& links, std::uint32_t node, rank_id rank) {
  report_exceptions(self);
  const auto tell = [links, node](const control::message& what) { links->tell(node, what); };
  return {
      [=](proceed_atom, std::uint64_t steps) {
        tell(control::proceed{rank, steps});
      },
      [=](assign_atom, const assignment& what) {
        tell(control::assign{rank, what});
      },
      [=](halt_atom) {
        tell(control::halt{rank});
        return self->state.halted = self->make_response_promise<std::uint64_t>();
      },
      [=](finish_atom, std::uint64_t steps) {
        tell(control::finish{rank, steps});
      },
      [=](show_atom, std::uint64_t step) {
        tell(control::show{rank, step});
      },
      [=](state_atom, std::uint64_t number) {
        tell(control::send_state{rank, number});
      },
      [=](restore_atom, const state_dict& state) {
        for (const auto& piece : cut(rank, 0, state)) links->send(node, piece);
      },
      [=](halt_atom, std::uint64_t steps) {
        if (self->state.halted.pending()) self->state.halted.deliver(steps);
      },
  };
}

}  // namespace

peer_port spawn_port_proxy(caf::actor_system& system, std::shared_ptr<links> links, std::uint32_t node,
                           std::uint32_t rank) {
  return system.spawn(
      [](peer_port::stateful_pointer<port_proxy_state> self, const std::shared_ptr<transport::links>& links,
         std::uint32_t node, std::uint32_t rank) -> peer_port::behavior_type {
        report_exceptions(self);
        return {[links, node, rank](part_atom, const part& piece) { links->send(node, rank, piece); }};
      },
      std::move(links), node, rank);
}

direction_actor spawn_direction_proxy(caf::actor_system& system, std::shared_ptr<links> links) {
  return system.spawn(direction_proxy, std::move(links));
}

worker_proxy spawn_worker_proxy(caf::actor_system& system, std::shared_ptr<links> links, std::uint32_t node,
                                rank_id rank) {
  return system.spawn(worker_proxy_of, std::move(links), node, rank);
}

}  // namespace troupe::transport
