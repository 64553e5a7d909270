#include "troupe/algorithms/exchange/shared/shared.hpp"
#include "troupe/runtime/plan/devices.hpp"
#include "troupe/runtime/plan/parts.hpp"
#include "troupe/runtime/plan/refuse.hpp"

#include <optional>
#include <string>

namespace troupe {

namespace {

/// Throws input_error if the workers of an exchange cannot share a memory.
void check_memory(const plan& so_far, const planned_exchange& exchange) {
  const auto& file = so_far.file;
  const auto ranks = exchange.ranks();
  for (const auto& node : so_far.nodes)
    if (!node.name.empty() && !topology::is_loopback(node.address))
      refuse(file, "exchange." + exchange.name,
             exchange.name + ": workers on different hosts cannot share memory, but node " + node.name + " is at " +
                 topology::print_endpoint(node.address) +
                 "; use loopback addresses, or another kind of exchange between hosts");
  const auto& first = so_far.devices.at(ranks.front());
  for (const auto rank : ranks) {
    const auto& where = so_far.devices.at(rank);
    if (where != first)
      refuse(file, "exchange." + exchange.name,
             exchange.name + ": workers " + std::to_string(ranks.front()) + " and " + std::to_string(rank) +
                 " share memory, but compute on " + first.str() + " and " + where.str() + "; use one device for both");
    if (where.is_cpu()) continue;
    if (exchange.nature.writes != memory_writes::plain || local_steps_of(exchange.settings) > 1)
      refuse(file, "exchange." + exchange.name,
             exchange.name + ": lock, atomic and local_steps require memory on the host, but its workers compute on " +
                 where.str() + "; use the cpu, or remove these keys");
    if (so_far.exchanges.size() > 1)
      refuse(file, "exchange." + exchange.name,
             exchange.name + ": shared memory on a GPU cannot be combined with other exchanges yet; use the cpu");
    if (so_far.nodes.size() > 1)
      refuse(file, "exchange." + exchange.name,
             exchange.name + ": processes cannot share GPU memory yet; use one node, or the cpu");
  }
}

/// Returns why the devices of the plan cannot run an exchange in the GPUs' own library (NCCL), or nothing.
std::optional<std::string> refusal_of_collective(const plan& plan, const planned_exchange& exchange,
                                                 const device::census& machine) {
  const std::string instead = "; use engine = \"troupe\"";
  if (!machine.compiled) return "engine = \"nccl\" requires CUDA, but this build does not include it" + instead;
  if (plan.nodes.size() > 1) return "engine = \"nccl\" does not support several [[node]]s yet" + instead;
  if (exchange.has_groups()) return "engine = \"nccl\" does not support groups of workers" + instead;
  const auto ranks = exchange.ranks();
  for (const auto rank : ranks)
    if (plan.devices.at(rank).is_cpu())
      return "engine = \"nccl\" requires GPUs, but worker " + std::to_string(rank) + " computes on the cpu" + instead;
  if (const auto both = sharing_a_gpu(plan, ranks))
    return "engine = \"nccl\" requires one GPU per worker, but workers " + std::to_string(both->first) + " and " +
           std::to_string(both->second) + " share " + plan.devices.at(both->first).str() + instead +
           ", or give each worker its own GPU";
  return std::nullopt;
}

}  // namespace

void check_hosting(const plan& so_far, const planned_exchange& exchange, const device::census& machine) {
  switch (exchange.nature.host) {
    case hosting::ports:
      return;
    case hosting::shared_memory:
      return check_memory(so_far, exchange);
    case hosting::device_library:
      if (const auto reason = refusal_of_collective(so_far, exchange, machine))
        refuse(so_far.file, "exchange." + exchange.name + ".engine", exchange.name + ": " + *reason);
  }
}

}  // namespace troupe
