#include "troupe/tools/watching/traffic.hpp"

#include "troupe/runtime/support/csv.hpp"
#include "troupe/tools/watching/summary.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

namespace troupe::watching {

namespace {

double seconds_of(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

std::string name_of(const emulation::wire_usage& wire) {
  return wire.name + (wire.sends ? " sends" : " receives");
}

/// Returns a quotient of at least 0, or 0 if the divisor is not positive.
double per(double amount, double by) {
  return by > 0 ? std::max(0.0, amount) / by : 0;
}

double difference(std::uint64_t now, std::uint64_t before) {
  return static_cast<double>(now) - static_cast<double>(before);
}

}  // namespace

std::vector<link_traffic> links_of(const history_state& state) {
  const auto span = state.traffic.seconds - state.traffic_before.seconds;
  std::map<std::string, const emulation::wire_usage*> before;
  for (const auto& wire : state.traffic_before.wires) before[name_of(wire)] = &wire;
  std::vector<link_traffic> links;
  for (const auto& wire : state.traffic.wires) {
    const auto found = before.find(name_of(wire));
    const auto then = found == before.end() ? emulation::wire_usage{} : *found->second;
    const auto waited = seconds_of(wire.waited - then.waited);
    links.push_back({.name = name_of(wire),
                     .messages = wire.messages,
                     .bytes = static_cast<std::uint64_t>(wire.bytes),
                     .rate = per(static_cast<double>(wire.bytes - then.bytes), span),
                     .busy = std::min(1.0, per(seconds_of(wire.busy - then.busy), span)),
                     .queue = per(waited, span),
                     .wait_mean = per(waited, difference(wire.messages, then.messages)),
                     .wait_max = seconds_of(wire.longest_wait)});
  }
  return links;
}

std::vector<edge_traffic> edges_of(const run_facts& facts, const history_state& state) {
  using ends = std::pair<std::uint32_t, std::uint32_t>;
  const auto span = state.traffic.seconds - state.traffic_before.seconds;
  std::map<ends, const emulation::edge_usage*> counted;
  std::map<ends, std::uint64_t> before;
  std::map<std::string, link_traffic> links;
  for (const auto& edge : state.traffic.edges) counted[{edge.from, edge.to}] = &edge;
  for (const auto& edge : state.traffic_before.edges) before[{edge.from, edge.to}] = edge.bytes;
  for (auto& link : links_of(state)) links.emplace(link.name, link);
  const auto speed = per(samples_per_second(facts, state).value_or(0), static_cast<double>(facts.samples_per_step));
  std::vector<edge_traffic> edges;
  for (const auto& planned : facts.edges) {
    edge_traffic result{.name = planned.name, .planned = planned.bytes, .rate = speed * planned.bytes};
    if (const auto usage = counted.find({planned.from, planned.to}); usage != counted.end()) {
      const auto& edge = *usage->second;
      result.measured = true;
      result.messages = edge.messages;
      result.bytes = edge.bytes;
      result.rate = per(difference(edge.bytes, before[{planned.from, planned.to}]), span);
      result.staleness = edge.staleness;
      if (const auto link = links.find(edge.wire + " sends"); link != links.end()) {
        result.queue = link->second.queue;
        result.wait_mean = link->second.wait_mean;
      }
    }
    edges.push_back(std::move(result));
  }
  return edges;
}

std::string csv_of(const std::vector<edge_traffic>& edges) {
  std::string text = "edge,planned_bytes_per_step,messages,bytes,bytes_per_second,queue,wait_mean_seconds,staleness\n";
  for (const auto& edge : edges) {
    const auto count = [&](std::uint64_t value) { return edge.measured ? std::to_string(value) : std::string(); };
    text += csv_field(edge.name) + "," + csv_number(edge.planned) + "," + count(edge.messages) + "," +
            count(edge.bytes) + "," + csv_number(edge.rate) + "," + csv_number(edge.queue) + "," +
            csv_number(edge.wait_mean) + "," + (edge.staleness ? std::to_string(*edge.staleness) : "") + "\n";
  }
  return text;
}

}  // namespace troupe::watching
