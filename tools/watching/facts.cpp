#include "troupe/tools/watching/facts.hpp"

#include "troupe/algorithms/exchange/around/streaming.hpp"
#include "troupe/runtime/emulation/network.hpp"
#include "troupe/runtime/support/units.hpp"
#include "troupe/runtime/telemetry/display.hpp"
#include "troupe/runtime/topology/load.hpp"

#include <map>

namespace troupe::watching {

namespace {

constexpr auto edges_max = emulation::network::counted_max;

std::vector<edge_facts> edges_of(const plan& plan) {
  std::map<std::string, edge_facts> by_name;
  for (const auto& exchange : plan.exchanges) {
    const auto name = [&](std::uint32_t id) {
      return id < plan.workers ? "w" + std::to_string(id)
                               : exchange.name + " s" + std::to_string(id - exchange.first_server);
    };
    const auto per_step = streaming_of(exchange.settings).per_step(exchange.due, plan.steps);
    for (const auto& edge : plan.traffic_of(exchange).edges) {
      const auto both = name(edge.from) + "->" + name(edge.to);
      auto& total = by_name.try_emplace(both, edge_facts{.name = both, .from = edge.from, .to = edge.to}).first->second;
      total.bytes += edge.used * static_cast<double>(edge.bytes) * per_step;
    }
    if (by_name.size() > edges_max) return {};
  }
  std::vector<edge_facts> edges;
  for (const auto& [name, total] : by_name) edges.push_back(total);
  return edges;
}

}  // namespace

run_facts facts_of(const plan& plan, const std::filesystem::path& folder, bool simulated) {
  const auto shape = telemetry::shape_of(plan, folder.string());
  run_facts facts{.title = plan.file.file.filename().string(),
                  .subtitle = plan.model->name + " on " + plan.data->name + ", " + counted(plan.workers, "worker"),
                  .model = plan.model->name,
                  .data = plan.data->name,
                  .workers = plan.workers,
                  .steps = shape.steps,
                  .steps_per_epoch = shape.steps_per_epoch,
                  .samples_per_step = shape.samples_per_step,
                  .simulated = simulated,
                  .warnings = plan.warnings,
                  .topology = topology::print(plan.file),
                  .folder = folder};
  if (facts.title.empty()) facts.title = facts.model + " on " + facts.data;
  if (const auto nodes = plan.nodes.size(); nodes > 1) facts.subtitle += " in " + std::to_string(nodes) + " processes";
  if (simulated) facts.subtitle += ", simulated";
  facts.edges = edges_of(plan);
  for (const auto& exchange : plan.exchanges) {
    exchange_facts described{.name = exchange.name,
                             .kind = exchange.kind != nullptr ? exchange.kind->name : "",
                             .edges = plan.traffic_of(exchange).edges.size(),
                             .every = exchange.due.every};
    for (const auto& edge : plan.traffic_of(exchange).edges)
      described.bytes += edge.used * static_cast<double>(edge.bytes);
    facts.exchanges.push_back(std::move(described));
  }
  return facts;
}

}  // namespace troupe::watching
