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
};

/// Returns handlers that forward each of these messages to another node, and the handlers `others`.
template <class Behavior, class... Messages, class... Others>
Behavior telling(const links& links, std::uint32_t node, control::list<Messages...> /*all*/, Others... others) {
  return {[links, node](const Messages& message) { links.control->tell(node, message); }..., std::move(others)...};
}

using direction_handlers = direction_actor::behavior_type;

direction_handlers direction_proxy(direction_actor::stateful_pointer<direction_proxy_state> self, const links& links) {
  report_exceptions(self);
  return telling<direction_handlers>(
      links, first_node, direction_messages{},
      [links](result_atom, const snapshot& result) { links.tensors->send(first_node, result); },
      [links](state_atom, rank_id rank, std::uint64_t number, const state_dict& state) {
        for (const auto& piece : cut(rank, number, state)) links.tensors->send(first_node, piece);
      });
}

using worker_handlers = directed_worker::behavior_type;

worker_handlers worker_proxy(directed_worker::stateful_pointer<worker_proxy_state> self, const links& links,
                             std::uint32_t node, rank_id rank) {
  report_exceptions(self);
  return telling<worker_handlers>(links, node, control::to_worker{},
                                  [links, node, rank](restore_atom, const state_dict& state) {
                                    for (const auto& piece : cut(rank, 0, state)) links.tensors->send(node, piece);
                                  });
}

}  // namespace

peer_port spawn_port_proxy(caf::actor_system& system, std::shared_ptr<tensor_links> links, std::uint32_t node,
                           std::uint32_t rank) {
  return system.spawn(
      [](peer_port::stateful_pointer<port_proxy_state> self, const std::shared_ptr<tensor_links>& links,
         std::uint32_t node, std::uint32_t rank) -> peer_port::behavior_type {
        report_exceptions(self);
        return {[links, node, rank](part_atom, const part& piece) { links->send(node, rank, piece); }};
      },
      std::move(links), node, rank);
}

direction_actor spawn_direction_proxy(caf::actor_system& system, links links) {
  return system.spawn(direction_proxy, std::move(links));
}

directed_worker spawn_worker_proxy(caf::actor_system& system, links links, std::uint32_t node, rank_id rank) {
  return system.spawn(worker_proxy, std::move(links), node, rank);
}

}  // namespace troupe::transport
