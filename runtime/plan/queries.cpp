#include "troupe/algorithms/exchange/around/buckets.hpp"
#include "troupe/algorithms/exchange/around/codec.hpp"
#include "troupe/algorithms/exchange/around/streaming.hpp"
#include "troupe/runtime/plan/plan.hpp"
#include "troupe/runtime/topology/value.hpp"

#include <algorithm>
#include <map>
#include <numeric>

namespace troupe {

namespace {

/// Returns how often an edge is used per step, on average over a run of so many steps.
double uses_per_step(const planned_exchange& exchange, const planned_edge& edge, std::uint64_t steps) {
  return edge.used * streaming_of(exchange.settings).per_step(exchange.due, steps);
}

/// Returns whether all workers take part. The common case takes constant time, because this is called for each of
/// perhaps a million workers.
bool has_all(const planned_exchange& exchange, std::uint32_t workers) {
  return exchange.members.size() == workers || exchange.ranks().size() == workers;
}

template <class Member>
double sum_over_edges(const plan& plan, Member member) {
  double sum = 0;
  for (const auto& exchange : plan.exchanges)
    for (const auto& edge : plan.traffic_of(exchange).edges)
      sum += uses_per_step(exchange, edge, plan.steps) * static_cast<double>(edge.*member);
  return sum;
}

}  // namespace

std::vector<std::uint32_t> planned_exchange::ranks() const {
  std::vector<std::uint32_t> result;
  for (const auto& member : members) result.insert(result.end(), member.ranks.begin(), member.ranks.end());
  if (!std::is_sorted(result.begin(), result.end())) std::sort(result.begin(), result.end());
  return result;
}

std::vector<std::uint32_t> planned_exchange::ids() const {
  auto result = ranks();
  for (std::uint32_t i = 0; i < nature.servers; ++i) result.push_back(first_server + i);
  return result;
}

std::vector<std::string> planned_exchange::names() const {
  std::vector<std::string> result;
  for (const auto& member : members) result.push_back(member.name);
  return result;
}

bool planned_exchange::has_groups() const {
  return std::any_of(members.begin(), members.end(), [](const auto& member) { return member.ranks.size() > 1; });
}

worker_groups planned_exchange::groups() const {
  const auto sorted_ranks = ranks();
  worker_groups result;
  for (const auto& member : members) {
    auto& group = result.emplace_back();
    for (const auto rank : member.ranks)
      group.push_back(static_cast<std::uint32_t>(std::lower_bound(sorted_ranks.begin(), sorted_ranks.end(), rank) -
                                                 sorted_ranks.begin()));
  }
  return result;
}

const rules::mixing_schedule* planned_exchange::mixing() const {
  return common ? common->mixing() : nullptr;
}

double plan::bytes_per_step() const {
  return sum_over_edges(*this, &planned_edge::bytes);
}

double plan::messages_per_step() const {
  return sum_over_edges(*this, &planned_edge::messages);
}

std::uint32_t planned_exchanges::servers() const {
  std::uint32_t sum = 0;
  for (const auto& exchange : exchanges) sum += exchange.nature.servers;
  return sum;
}

std::vector<const planned_exchange*> planned_exchanges::stores() const {
  std::vector<const planned_exchange*> memories;
  for (const auto& exchange : exchanges)
    if (!exchange.nature.in_loop) memories.push_back(&exchange);
  if (!memories.empty()) return memories;
  const auto holds = [&](const auto& exchange) {
    return exchange.nature.servers > 0 && !exchange.nature.is_elsewhere() && has_all(exchange, workers);
  };
  const auto store = std::find_if(exchanges.begin(), exchanges.end(), holds);
  if (store == exchanges.end()) return {};
  return {&*store};
}

const planned_exchange* planned_exchanges::memory_of(std::uint32_t rank) const {
  const auto found = std::find_if(exchanges.begin(), exchanges.end(), [&](const auto& exchange) {
    if (exchange.nature.in_loop) return false;
    const auto ranks = exchange.ranks();
    return std::binary_search(ranks.begin(), ranks.end(), rank);
  });
  return found == exchanges.end() ? nullptr : &*found;
}

const planned_exchange* planned_exchanges::norms() const {
  const auto found =
      std::find_if(exchanges.begin(), exchanges.end(), [](const auto& exchange) { return exchange.of_norms; });
  return found == exchanges.end() ? nullptr : &*found;
}

bool planned_exchanges::replicas_agree() const {
  return replicas_agree_until() == cadence::never;
}

std::uint64_t planned_exchanges::replicas_agree_until() const {
  // A step on a GPU rounds differently from one on the CPU.
  const auto alike = [&](const auto& device) { return device.type() == devices.front().type(); };
  if (!std::all_of(devices.begin(), devices.end(), alike)) return 0;
  auto until = cadence::never;
  bool has_sum = false;
  for (const auto& exchange : exchanges) {
    const bool is_sum =
        exchange.carries.sends == slot::gradient && exchange.nature.same_for_all && has_all(exchange, workers);
    const auto equal_until = is_sum                    ? exchange.due.always_until()
                             : exchange.nature.in_loop ? exchange.due.begins_after()
                                                       : 0;
    until = std::min(until, equal_until);
    has_sum |= is_sum;
  }
  return has_sum ? until : 0;
}

bool planned_exchanges::buffers_agree() const {
  return layout.total == layout.parameter_end || norms() != nullptr || memory_of(0) != nullptr;
}

bool planned_exchanges::deterministic() const {
  return std::all_of(exchanges.begin(), exchanges.end(),
                     [](const auto& exchange) { return exchange.nature.deterministic; });
}

bool planned_exchanges::promises_bits() const {
  return deterministic() && draws_elsewhere.empty() && !file.run.max_seconds &&
         std::none_of(exchanges.begin(), exchanges.end(),
                      [](const auto& exchange) { return !exchange.nature.sums_by.empty(); }) &&
         std::all_of(devices.begin(), devices.end(), [](const auto& device) { return device.is_cpu(); });
}

bool planned_exchanges::workers_are_independent() const {
  return !stores().empty() && std::all_of(exchanges.begin(), exchanges.end(), [](const auto& exchange) {
    return !exchange.nature.waits_for_others && exchange.nature.servers > 0 && !exchange.has_groups();
  });
}

std::string planned_training::control_carrier() const {
  if (nodes.size() < 2) return {};
  return file.transport.control == "frames" ? "frames" : "caf";
}

bool planned_training::keeps_copies(std::uint32_t node) const {
  return node == 1 && node < nodes.size() && when.checkpoint_every > 0 && file.checkpoint.copies > 1;
}

std::uint32_t planned_work::node_of(std::uint32_t id) const {
  if (id >= workers) return 0;  // servers are on the node of the coordinator
  const auto after = std::upper_bound(nodes.begin(), nodes.end(), id,
                                      [](std::uint32_t r, const planned_node& node) { return r < node.first_rank; });
  return static_cast<std::uint32_t>(after - nodes.begin()) - 1;
}

traffic_sum plan::between_nodes() const {
  traffic_sum sum;
  for (const auto& exchange : exchanges)
    for (const auto& edge : traffic_of(exchange).edges) {
      if (!crosses(edge) || edge.messages == 0) continue;
      ++sum.edges;
      sum.messages += uses_per_step(exchange, edge, steps) * static_cast<double>(edge.messages);
      sum.bytes += uses_per_step(exchange, edge, steps) * static_cast<double>(edge.bytes);
    }
  return sum;
}

std::uint64_t plan::bytes_held(const planned_exchange& exchange, std::uint32_t server) const {
  if (exchange.nature.is_elsewhere()) return 0;
  if (!exchange.nature.in_loop) return static_cast<std::uint64_t>(exchange.layout.total) * sizeof(float);
  std::uint64_t most = 0;
  for (const auto& edge : traffic_of(exchange).edges)
    if (edge.from == exchange.first_server + server) most = std::max(most, edge.elements);
  return most * sizeof(float);
}

}  // namespace troupe
