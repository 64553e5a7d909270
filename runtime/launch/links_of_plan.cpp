#include "troupe/runtime/launch/links_of_plan.hpp"

#include "troupe/runtime/plan/worker_of_plan.hpp"

namespace troupe {

std::vector<control::node_ranks> ranks_of_nodes(const plan& plan) {
  std::vector<control::node_ranks> ranks;
  for (const auto& node : plan.nodes) ranks.push_back({node.first_rank, node.workers});
  return ranks;
}

transport::frame_limits frame_limits_of(const plan& plan, std::uint32_t node) {
  const auto& self = plan.nodes.at(node);
  transport::frame_limits limits{.run = run_id_of(plan),
                                 .world_size = plan.workers,
                                 .first_rank = self.first_rank,
                                 .ranks = self.workers,
                                 .servers = plan.servers(),
                                 .has_servers = node == 0,
                                 .total = plan.layout.total,
                                 .keeps_copies = plan.keeps_copies(node)};
  for (const auto& exchange : plan.exchanges) {
    limits.exchanged.push_back(exchange.layout.parameter_end);
    limits.encodings.push_back(exchange.codec.how);
  }
  return limits;
}

}  // namespace troupe
