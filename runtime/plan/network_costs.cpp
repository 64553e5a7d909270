#include "troupe/runtime/plan/network_costs.hpp"

#include "troupe/runtime/plan/link_paths.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace troupe {

namespace {

/// A chunk has at most 1 MiB: small enough that folding and sending overlap, large enough that waking a thread for each
/// message costs little. On slow links, where that cost does not matter, a chunk is what the link carries in
/// seconds_of_a_chunk, so that the hops of a tensor of less than 1 MiB overlap as well.
constexpr std::int64_t most_elements_of_a_chunk = 256 * 1024, least_elements_of_a_chunk = 4 * 1024;
constexpr double seconds_of_a_chunk = 0.02;

/// How near two members are, apart from links.
enum class nearness : std::uint8_t { process, host, network };

double seconds(std::chrono::microseconds time) {
  return 1e-6 * static_cast<double>(time.count());
}

/// Makes the ways between members and records what it assumed.
class ways_between_members {
 public:
  ways_between_members(const planned_wiring& plan, std::vector<std::uint32_t> ids, bool placed)
      : links_(plan), ids_(std::move(ids)), placed_(placed) {
    std::map<std::string, std::uint32_t> hosts;
    for (const auto id : ids_) node_of_.push_back(plan.node_of(id));
    for (const auto& node : plan.nodes) {
      const auto name = is_loopback(node.address) ? std::string{} : node.address.host;
      host_of_.push_back(hosts.try_emplace(name, static_cast<std::uint32_t>(hosts.size())).first->second);
    }
  }

  rules::message_way operator()(std::uint32_t from, std::uint32_t to) {
    const auto path = links_.between(ids_[from], ids_[to]);
    const auto near = nearness_of(from, to);
    const auto has_rate = path.sending || path.receiving;
    if (!has_rate || !path.latency) assumed_.insert(near);
    auto way = assumed_way(from, to, near);
    if (has_rate || path.latency) way.in_process = false;
    if (has_rate) {
      way.per_message = 0;
      way.out = path.sending ? std::optional{number_of(wire::link, *path.sending)} : std::nullopt;
      way.in = path.receiving ? std::optional{number_of(wire::link, *path.receiving)} : std::nullopt;
      way.out_rate = path.send_rate;
      way.in_rate = path.receive_rate;
    }
    if (path.latency) way.latency = seconds(*path.latency);
    if (path.jitter) way.jitter = seconds(*path.jitter);
    if (path.loss) way.loss = *path.loss;
    return way;
  }

  const std::set<nearness>& assumed() const { return assumed_; }

 private:
  enum class wire : std::uint8_t { link, memory, host };

  nearness nearness_of(std::uint32_t from, std::uint32_t to) const {
    if (!placed_ || node_of_[from] == node_of_[to]) return nearness::process;
    return host_of_[node_of_[from]] == host_of_[node_of_[to]] ? nearness::host : nearness::network;
  }

  rules::message_way assumed_way(std::uint32_t from, std::uint32_t to, nearness near) {
    if (near == nearness::process) return rules::way_in_process();
    if (near == nearness::host)  // copying and checking take the cores of the host, in both directions
      return {.out = number_of(wire::memory, {.which = host_of_[node_of_[from]]}),
              .out_rate = rate_between_processes,
              .per_message = seconds_per_message,
              .latency = latency_between_processes};
    return {.out = number_of(wire::host, {.sends = true, .which = host_of_[node_of_[from]]}),
            .in = number_of(wire::host, {.sends = false, .which = host_of_[node_of_[to]]}),
            .out_rate = rate_between_hosts,
            .in_rate = rate_between_hosts,
            .per_message = seconds_per_message,
            .latency = latency_between_hosts};
  }

  std::size_t number_of(wire what, const wire_id& id) {
    return numbers_.try_emplace({what, id}, numbers_.size()).first->second;
  }

  link_paths links_;
  std::vector<std::uint32_t> ids_;  ///< By member.
  bool placed_;
  std::vector<std::uint32_t> node_of_, host_of_;  ///< By member, and by node.
  std::map<std::pair<wire, wire_id>, std::size_t> numbers_;
  std::set<nearness> assumed_;
};

std::string text_of(nearness near) {
  switch (near) {
    case nearness::process:
      return "18 GB/s of memory in a process";
    case nearness::host:
      return "3 GB/s and 30 us between processes of a host";
    case nearness::network:
      return "1 Gbit/s and 0.2 ms between hosts";
  }
  return {};
}

}  // namespace

std::int64_t chunk_elements_of(const planned_wiring& plan) {
  if (plan.nodes.size() < 2) return 0;
  auto elements = most_elements_of_a_chunk;
  for (const auto& [given, ends] : plan.links) {
    if (!given.bandwidth) continue;
    const auto carried = given.bandwidth->bytes_per_second * seconds_of_a_chunk / sizeof(float);
    if (carried < static_cast<double>(elements)) elements = static_cast<std::int64_t>(carried);
  }
  return std::max(elements, least_elements_of_a_chunk);
}

assumed_network assume_network(const planned_wiring& plan, const planned_exchange& exchange, bool placed) {
  std::vector<std::uint32_t> ids;
  for (const auto& member : exchange.members) ids.push_back(member.ranks.front());
  const auto members = static_cast<std::uint32_t>(ids.size());
  ways_between_members ways{plan, std::move(ids), placed};
  assumed_network network;
  network.costs = rules::costs_of(members, [&](std::uint32_t from, std::uint32_t to) { return ways(from, to); });
  for (const auto& link : plan.links) network.links.push_back(describe(link));
  for (const auto near : ways.assumed()) network.links.push_back(text_of(near));
  return network;
}

}  // namespace troupe
