#include "troupe/algorithms/rules/message_costs.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

namespace troupe::rules {

namespace {

constexpr double packet_bytes = 1500;

/// How long messages occupy a wire: a constant time, and a time for each byte.
struct occupation {
  double seconds{0}, per_byte{0};
};

using occupations = std::map<std::size_t, occupation>;

void occupy(occupations& wires, std::size_t wire, double per_message, double rate) {
  auto& occupied = wires[wire];
  occupied.seconds += per_message;
  occupied.per_byte += 1 / rate;
}

void occupy(occupations& wires, const message_way& way) {
  if (way.out) occupy(wires, *way.out, way.per_message, way.out_rate);
  if (way.in) occupy(wires, *way.in, way.per_message, way.in_rate);
}

/// Returns how long a byte occupies the slower wire, in seconds.
double length_of(const message_way& way) {
  return std::max(way.out ? 1 / way.out_rate : 0, way.in ? 1 / way.in_rate : 0);
}

/// Returns the expected number of packets lost by the one of `messages` messages that loses most, if each loses `mean`
/// on average (Poisson).
double most_lost(double messages, double mean) {
  constexpr double many = 50;
  if (mean <= 0) return 0;
  if (mean > many) return mean + std::sqrt(2 * mean * std::log(std::max(1.0, messages)));
  // The sum over k of the probability that a message loses more than k packets.
  double most = 0, probability = std::exp(-mean), below = probability;
  for (double k = 1; k < 8 * many; ++k) {
    const auto rest = 1 - std::pow(below, messages);
    most += rest;
    if (rest < 1e-6) break;
    probability *= mean / k;
    below = std::min(1.0, below + probability);
  }
  return most;
}

using way_between = std::function<message_way(std::uint32_t from, std::uint32_t to)>;

void add_hops(message_costs& costs, const way_between& between) {
  occupations wires;
  for (std::uint32_t member = 0; member + 1 < costs.members; ++member) {
    for (const auto& way : {between(member, member + 1), between(member + 1, member)}) {
      costs.hops_latency += way.latency + way.jitter / 2 + way.per_message;
      costs.hops_lost_latency += 2 * way.latency * way.loss;
      costs.hops_seconds_per_byte += length_of(way);
      occupy(wires, way);
    }
  }
  for (const auto& [wire, busy] : wires) {
    costs.busiest_seconds = std::max(costs.busiest_seconds, busy.seconds);
    costs.busiest_per_byte = std::max(costs.busiest_per_byte, busy.per_byte);
  }
}

/// Calls `visit` for each pair of members, with the sender and the way from it to the receiver.
void for_all_pairs(std::uint32_t members, const way_between& between,
                   const std::function<void(std::uint32_t, const message_way&)>& visit) {
  for (std::uint32_t from = 0; from < members; ++from)
    for (std::uint32_t to = 0; to < members; ++to)
      if (from != to) visit(from, between(from, to));
}

void add_pairs(message_costs& costs, const way_between& between) {
  occupations wires;
  std::vector<std::uint32_t> together(costs.members, 1);
  for_all_pairs(costs.members, between, [&](std::uint32_t from, const message_way& way) {
    occupy(wires, way);
    if (way.in_process) ++together[from];
  });
  for (const auto count : together) costs.together = std::max(costs.together, count);
  std::map<std::array<double, 5>, double> counts;
  for_all_pairs(costs.members, between, [&](std::uint32_t /*from*/, const message_way& way) {
    const auto out = way.out ? wires.at(*way.out) : occupation{}, in = way.in ? wires.at(*way.in) : occupation{};
    counts[{std::max(out.seconds, in.seconds), std::max(out.per_byte, in.per_byte), way.latency, way.jitter,
            way.loss}] += 1;
  });
  for (const auto& [pair, count] : counts)
    costs.pairs.push_back({.seconds = pair[0],
                           .seconds_per_byte = pair[1],
                           .latency = pair[2],
                           .jitter = pair[3],
                           .loss = pair[4],
                           .count = count});
}

}  // namespace

message_way way_in_process() {
  return {.latency = wake_seconds, .in_process = true};
}

message_costs costs_of(std::uint32_t members,
                       const std::function<message_way(std::uint32_t from, std::uint32_t to)>& between) {
  message_costs costs{.members = members, .pairs = {}};
  add_hops(costs, between);
  if (members <= members_of_pairs) add_pairs(costs, between);
  return costs;
}

message_costs costs_in_process(std::uint32_t members) {
  const auto n = static_cast<double>(members);
  const auto latency = way_in_process().latency;
  message_costs costs{.members = members, .together = members, .pairs = {}};
  if (members > 1) costs.pairs = {{.latency = latency, .count = n * (n - 1)}};
  costs.hops_latency = 2 * (n - 1) * latency;
  return costs;
}

double seconds_to_all(const message_costs& costs, double bytes) {
  double last = 0;
  for (const auto& pair : costs.pairs) {
    const auto lost = most_lost(pair.count, pair.loss * std::ceil(bytes / packet_bytes));
    const auto jitter = pair.jitter * pair.count / (pair.count + 1);
    last = std::max(last, pair.seconds + pair.seconds_per_byte * bytes + pair.latency * (1 + 2 * lost) + jitter);
  }
  return last;
}

double seconds_to_handle(const message_costs& costs, double messages, double bytes) {
  return std::max(1.0, costs.together / threads) * (messages * handling_seconds + bytes / fold_bytes_per_second);
}

double seconds_up_and_back(const message_costs& costs, double bytes, double chunk) {
  const auto chunks = chunk > 0 ? std::max(1.0, std::ceil(bytes / chunk)) : 1;
  const auto chunk_bytes = bytes / chunks;
  // On the way up, a member reads the partial sum and its own contribution.
  const auto fold = 2 * chunk_bytes / fold_bytes_per_second + 2 * handling_seconds;
  const auto first = costs.hops_latency + costs.hops_lost_latency * std::ceil(chunk_bytes / packet_bytes) +
                     costs.hops_seconds_per_byte * chunk_bytes + (static_cast<double>(costs.members) - 1) * fold;
  const auto next = std::max(costs.busiest_seconds + costs.busiest_per_byte * chunk_bytes,
                             std::max(1.0, costs.together / threads) * fold);
  return first + (chunks - 1) * next;
}

}  // namespace troupe::rules
