#include "troupe/runtime/plan/replicas.hpp"

#include "troupe/algorithms/exchange/registry.hpp"
#include "troupe/algorithms/exchange/shared/shared.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace troupe {

namespace {

using topology::exchange_settings;

std::string worker(std::int64_t rank) {
  return "w" + std::to_string(rank);
}

/// Returns an exchange that averages the parameters of `members`, or of all workers if there are none.
exchange_settings average(std::string name, const exchange_settings& given, std::vector<std::string> members) {
  return {.name = std::move(name),
          .kind = "all_reduce",
          .sends = "parameters",
          .members = std::move(members),
          .every = given.every,
          .from = given.from,
          .until = given.until,
          .growth = given.growth,
          .options = {{"route", std::string{"auto"}}}};
}

}  // namespace

without_replicas expand_replicas(const topology::topology& given, const std::vector<numa_node>& machine) {
  without_replicas result{.file = given, .cores = {}, .notes = {}};
  result.file.exchanges.clear();
  auto& loop = result.file.workers.loop;
  const auto workers = given.workers.count;
  for (auto exchange : given.exchanges) {
    const auto* kind = find_exchange(exchange.kind);
    const auto how =
        kind && !nature_of(*kind, exchange.options).in_loop ? replicas_of(exchange.options) : replicas::machine;
    if (how == replicas::machine) {
      result.file.exchanges.push_back(std::move(exchange));
      continue;
    }
    if (how == replicas::core) {
      result.notes.push_back("replicas = \"core\": workers share no memory; they average their parameters");
      result.file.exchanges.push_back(average(exchange.name, exchange, {}));
      loop.push_back(exchange.name);
      continue;
    }
    exchange.options["replicas"] = std::string{"machine"};
    const auto nodes = std::min<std::int64_t>(static_cast<std::int64_t>(machine.size()), workers);
    if (nodes == 1) {
      result.notes.push_back(
          "replicas = \"node\": " +
          std::string(machine.size() > 1 ? "there is one worker" : "this machine has one NUMA node") +
          ", so there is one shared memory and nothing to average");
      exchange.every = {1, false};
      exchange.from.reset();
      exchange.until.reset();
      exchange.growth.reset();
      result.file.exchanges.push_back(std::move(exchange));
      continue;
    }
    std::vector<std::string> first;
    for (std::int64_t node = 0; node < nodes; ++node) {
      auto own = exchange;
      own.name = exchange.name + "-" + std::to_string(node);
      own.every = {1, false};
      own.from.reset();
      own.until.reset();
      own.growth.reset();
      for (auto rank = node * workers / nodes; rank < (node + 1) * workers / nodes; ++rank)
        own.members.push_back(worker(rank));
      first.push_back(own.members.front());
      result.cores[own.name] = machine[static_cast<std::size_t>(node)].cores;
      result.file.exchanges.push_back(std::move(own));
    }
    result.notes.push_back("replicas = \"node\": one shared memory on each of " + std::to_string(nodes) +
                           " NUMA nodes; the first worker of each node averages them");
    result.file.exchanges.push_back(average(exchange.name + "-average", exchange, std::move(first)));
    loop.push_back(exchange.name + "-average");
  }
  return result;
}

}  // namespace troupe
