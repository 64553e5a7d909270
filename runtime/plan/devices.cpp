#include "troupe/runtime/plan/devices.hpp"

#include "troupe/algorithms/exchange/shared/shared.hpp"
#include "troupe/algorithms/support/assert.hpp"
#include "troupe/files/text.hpp"
#include "troupe/runtime/plan/derive.hpp"
#include "troupe/runtime/plan/refuse.hpp"
#include "troupe/runtime/topology/value.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

namespace troupe {

namespace {

[[noreturn]] void refuse_device(const planned_data& plan, const std::string& reason) {
  refuse(plan.file, "workers.device", "workers.device = " + topology::print_devices(plan.file.workers.device) + reason);
}

/// Returns text such as "2 GPUs, cuda:0 and cuda:1".
std::string gpus_text(std::size_t count) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < count; ++i) names.push_back("cuda:" + std::to_string(i));
  return std::to_string(count) + (count == 1 ? " GPU, " : " GPUs, ") + text::listed(names, "and");
}

void require_gpus(const planned_data& plan, const device::census& machine) {
  if (!machine.compiled)
    refuse_device(
        plan, " requires CUDA, but this build does not include it; use \"cpu\", or a build with the CMake preset cuda");
  if (machine.gpus.empty())
    refuse_device(plan, " requires a GPU, but CUDA finds none: " + machine.problem +
                            "; use \"cpu\", or check that nvidia-smi lists the GPU");
}

std::vector<c10::Device> every_gpu(const device::census& machine) {
  std::vector<c10::Device> gpus;
  for (std::size_t i = 0; i < machine.gpus.size(); ++i) gpus.emplace_back(c10::kCUDA, static_cast<c10::DeviceIndex>(i));
  return gpus;
}

/// Returns the devices that are assigned to the workers of a node in turn.
std::vector<c10::Device> devices_in_turn(const planned_data& plan, const device::census& machine) {
  std::vector<c10::Device> devices;
  for (const auto& word : plan.file.workers.device) {
    const auto sparse = plan.model && plan.model->step;
    if (word == "cpu" || (word == "auto" && (machine.gpus.empty() || sparse))) {
      devices.emplace_back(c10::kCPU);
      continue;
    }
    if (sparse) refuse_device(plan, " does not support the sparse samples of " + plan.model->name + "; use \"cpu\"");
    require_gpus(plan, machine);
    if (word == "auto" || word == "cuda") return every_gpu(machine);
    const auto index = topology::index_of_gpu(word);
    TROUPE_ASSERT(index, "a device is one that topology::allowed() accepts");
    if (*index >= machine.gpus.size())
      refuse_device(plan, " names " + word + ", but this machine has " + gpus_text(machine.gpus.size()) +
                              "; use one of these, or \"cuda\" for all of them");
    devices.emplace_back(c10::kCUDA, static_cast<c10::DeviceIndex>(*index));
  }
  return devices;
}

}  // namespace

std::vector<c10::Device> deal_devices(const planned_data& so_far, const std::vector<planned_node>& nodes,
                                      const device::census& machine) {
  const auto in_turn = devices_in_turn(so_far, machine);
  std::vector<c10::Device> devices;
  for (const auto& node : nodes)
    for (std::uint32_t i = 0; i < node.workers; ++i) devices.push_back(in_turn[i % in_turn.size()]);
  return devices;
}

std::optional<std::pair<std::uint32_t, std::uint32_t>> sharing_a_gpu(const planned_work& plan,
                                                                     const std::vector<std::uint32_t>& ranks) {
  std::map<std::pair<std::uint32_t, c10::DeviceIndex>, std::uint32_t> taken;  // by node and GPU
  if (plan.devices.empty()) return std::nullopt;
  for (const auto rank : ranks) {
    const auto& where = plan.devices.at(rank);
    if (where.is_cpu()) continue;
    const auto [holder, fresh] = taken.try_emplace({plan.node_of(rank), where.index()}, rank);
    if (!fresh) return std::pair{holder->second, rank};
  }
  return std::nullopt;
}

namespace {

/// Throws input_error if the workers of an exchange cannot share a memory.
void check_memory(const planned_exchanges& so_far, const planned_exchange& exchange) {
  const auto& file = so_far.file;
  const auto ranks = exchange.ranks();
  for (const auto& node : so_far.nodes)
    if (!node.name.empty() && !is_loopback(node.address))
      refuse(file, "exchange." + exchange.name,
             exchange.name + ": workers on different hosts cannot share memory, but node " + node.name + " is at " +
                 print_endpoint(node.address) + "; use loopback addresses, or another kind of exchange between hosts");
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
std::optional<std::string> refusal_of_collective(const planned_exchanges& plan, const planned_exchange& exchange,
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

void check_carrier(const planned_exchanges& so_far, const planned_exchange& exchange, const device::census& machine) {
  switch (exchange.nature.carried_by) {
    case carrier::ports:
      return;
    case carrier::shared_memory:
      return check_memory(so_far, exchange);
    case carrier::device_library:
      if (const auto reason = refusal_of_collective(so_far, exchange, machine))
        refuse(so_far.file, "exchange." + exchange.name + ".engine", exchange.name + ": " + *reason);
  }
}

std::string devices_text(const std::vector<c10::Device>& devices) {
  std::vector<std::pair<std::string, std::size_t>> counted;
  for (const auto& device : devices) {
    const auto same = [&](const auto& entry) { return entry.first == device.str(); };
    const auto entry = std::find_if(counted.begin(), counted.end(), same);
    if (entry == counted.end())
      counted.emplace_back(device.str(), 1);
    else
      entry->second += 1;
  }
  std::string text = devices.empty() ? "cpu" : "";
  for (const auto& [name, count] : counted) {
    text += (text.empty() ? "" : ", ") + name;
    if (counted.size() > 1) text += " (" + std::to_string(count) + (count == 1 ? " worker)" : " workers)");
  }
  return text;
}

}  // namespace troupe
