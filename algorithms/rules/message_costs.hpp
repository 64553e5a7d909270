// How long messages between the members of an exchange take: a summary of the network, from which every route predicts
// its own time, so that one can be chosen. Predictions are functions of the topology file, so that all nodes make the
// same ones.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

namespace troupe::rules {

/// How a message gets from one member to another. It occupies the wires at both ends; a wire carries one message at a
/// time. An interface shared by several members is one wire for each direction.
struct message_way {
  std::optional<std::size_t> out{}, in{};  ///< Numbers of the wires, chosen by the caller; empty for no limit.
  double out_rate{std::numeric_limits<double>::infinity()}, in_rate{out_rate};  ///< In bytes per second.
  double per_message{0};         ///< Time for which a message occupies a wire besides that of its bytes, in seconds.
  double latency{0}, jitter{0};  ///< In seconds.
  double loss{0};                ///< Probability that a packet of 1,500 bytes is delayed by twice the latency.
  bool in_process{false};        ///< Whether both members share the threads and the memory of a process.
};

/// Pairs of members whose messages take equally long when each member sends one of the same size to every other.
struct equal_pairs {
  double seconds{0};           ///< Time until both wires have carried all their messages, without the bytes.
  double seconds_per_byte{0};  ///< Additional time for each byte of a message.
  double latency{0}, jitter{0}, loss{0};
  double count{0};
};

/// What messages among `members` cost.
struct message_costs {
  std::uint32_t members{1};
  std::uint32_t together{1};       ///< Largest number of members in one process.
  std::vector<equal_pairs> pairs;  ///< Empty if there are more than members_of_pairs members.

  // The hops of a message that travels from the first member to the last one, from each to the next, and back:
  double hops_latency{0};           ///< Sum of latency, mean jitter and message_way::per_message, in seconds.
  double hops_lost_latency{0};      ///< Sum of the expected delays by losses, in seconds for each packet.
  double hops_seconds_per_byte{0};  ///< Sum of the times on the slower wire, in seconds for each byte.
  double busiest_seconds{0};        ///< Time for which the message occupies the busiest wire, without its bytes.
  double busiest_per_byte{0};       ///< Time for which each byte of it occupies the busiest wire.
};

/// Maximum number of members for which every pair is considered. With more members, sending to all of them is not an
/// option, because a plan would list n² edges.
constexpr std::uint32_t members_of_pairs = 1024;

/// Costs in a process: waking the thread of an actor, handling a message, and folding contributions. Processes handle
/// messages on two threads. The values are rounded such that a few workers on the cores of one machine choose the
/// fastest route there; docs/algorithms.md states them.
constexpr double wake_seconds = 10e-6, handling_seconds = 2e-6, fold_bytes_per_second = 18e9, threads = 2;

/// Returns the way between two members of one process.
message_way way_in_process();

/// Summarises the ways between members. Symmetry is not required.
message_costs costs_of(std::uint32_t members,
                       const std::function<message_way(std::uint32_t from, std::uint32_t to)>& between);

/// Returns the costs among members of one process.
message_costs costs_in_process(std::uint32_t members);

/// Returns the seconds until every member has a message of `bytes` from every other one. Requires message_costs::pairs.
double seconds_to_all(const message_costs& costs, double bytes);

/// Returns the seconds that a process needs to handle `messages` to each of its members, and to fold `bytes` for each.
double seconds_to_handle(const message_costs& costs, double messages, double bytes);

/// Returns the seconds in which a sum of `bytes` travels from the first member to the last one and back as the mean,
/// cut into chunks of at most `chunk` bytes (0: uncut) that follow one another.
double seconds_up_and_back(const message_costs& costs, double bytes, double chunk);

}  // namespace troupe::rules
