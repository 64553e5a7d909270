#include "troupe/runtime/transport/proxy.hpp"

#include "troupe/runtime/transport/state_frames.hpp"

#include <caf/all.hpp>

#include <utility>

namespace troupe::transport {

namespace {

struct port_proxy_state {
  static inline const char* name = "port proxy";
};

struct coordinator_proxy_state {
  static inline const char* name = "coordinator proxy";
};

}  // namespace

peer_port spawn_port_proxy(caf::actor_system& system, std::shared_ptr<tensor_plane> plane, std::uint32_t node,
                           std::uint32_t rank) {
  return system.spawn(
      [](peer_port::stateful_pointer<port_proxy_state> self, const std::shared_ptr<tensor_plane>& plane,
         std::uint32_t node, std::uint32_t rank) -> peer_port::behavior_type {
        report_exceptions(self);
        return {[plane, node, rank](part_atom, const part& piece) { plane->send(node, rank, piece); }};
      },
      std::move(plane), node, rank);
}

snapshot_sink spawn_coordinator_proxy(caf::actor_system& system, std::shared_ptr<tensor_plane> plane,
                                      std::uint32_t node) {
  return system.spawn(
      [](snapshot_sink::stateful_pointer<coordinator_proxy_state> self, const std::shared_ptr<tensor_plane>& plane,
         std::uint32_t node) -> snapshot_sink::behavior_type {
        report_exceptions(self);
        return {[plane, node](result_atom, const snapshot& result) { plane->send(node, result); },
                [plane, node](state_atom, rank_id rank, std::uint64_t number, const state_dict& state) {
                  for (const auto& piece : cut(rank, number, state)) plane->send(node, piece);
                }};
      },
      std::move(plane), node);
}

}  // namespace troupe::transport
