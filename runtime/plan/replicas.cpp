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
          .options = {{"route", std::string{"auto"}}}};
}

}  // namespace

without_replicas expand_replicas(const topology::topology& given, const std::vector<numa_node>& machine) {
  without_replicas made{.file = given, .cores = {}, .notes = {}};
  made.file.exchanges.clear();
  auto& loop = made.file.workers.loop;
  const auto workers = given.workers.count;
  for (auto each : given.exchanges) {
    const auto* kind = find_exchange(each.kind);
    const auto how = kind && !nature_of(*kind, each.options).in_loop ? replicas_of(each.options) : replicas::machine;
    if (how == replicas::machine) {
      made.file.exchanges.push_back(std::move(each));
      continue;
    }
    if (how == replicas::core) {
      made.notes.push_back("replicas = \"core\": workers share no memory; they average their parameters");
      made.file.exchanges.push_back(average(each.name, each, {}));
      loop.push_back(each.name);
      continue;
    }
    each.options["replicas"] = std::string{"machine"};
    const auto nodes = std::min<std::int64_t>(static_cast<std::int64_t>(machine.size()), workers);
    if (nodes == 1) {
      made.notes.push_back("replicas = \"node\": " +
                           std::string(machine.size() > 1 ? "there is one worker" : "this machine has one NUMA node") +
                           ", so there is one shared memory and nothing to average");
      each.every = {1, false};
      made.file.exchanges.push_back(std::move(each));
      continue;
    }
    std::vector<std::string> first;
    for (std::int64_t node = 0; node < nodes; ++node) {
      auto own = each;
      own.name = each.name + "-" + std::to_string(node);
      own.every = {1, false};
      for (auto rank = node * workers / nodes; rank < (node + 1) * workers / nodes; ++rank)
        own.members.push_back(worker(rank));
      first.push_back(own.members.front());
      made.cores[own.name] = machine[static_cast<std::size_t>(node)].cores;
      made.file.exchanges.push_back(std::move(own));
    }
    made.notes.push_back("replicas = \"node\": one shared memory on each of " + std::to_string(nodes) +
                         " NUMA nodes; the first worker of each node averages them");
    made.file.exchanges.push_back(average(each.name + "-average", each, std::move(first)));
    loop.push_back(each.name + "-average");
  }
  return made;
}

}  // namespace troupe
