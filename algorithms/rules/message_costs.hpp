// How long messages between the members of an exchange take, in so far as a route may be chosen by it: a summary of the
// network, from which every route predicts its own time. Predictions are functions of what a topology file says, so
// that all nodes make the same.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

namespace troupe::rules {

/// How a message gets from one member to another. It occupies the wires of both ends, and no other message does so at
/// the same time; an interface of several members is one wire for each direction.
struct message_way {
  std::optional<std::size_t> out{}, in{};  ///< Numbers of the wires, chosen by the caller; none if they are no limit.
  double out_rate{std::numeric_limits<double>::infinity()}, in_rate{out_rate};  ///< In bytes per second.
  double per_message{0};         ///< For how long a message occupies a wire in addition to its bytes, in seconds.
  double latency{0}, jitter{0};  ///< In seconds.
  double loss{0};                ///< Probability for each packet of 1,500 bytes, of a delay by twice the latency.
  bool in_process{false};        ///< Whether both members share the threads and the memory of a process.
};

/// Pairs of members whose messages take equally long when each member sends one of the same size to every other.
struct equal_pairs {
  double seconds{0};           ///< Until both wires have carried all of their messages, if these have no bytes,
  double seconds_per_byte{0};  ///< and how much longer it takes for each byte of one of them.
  double latency{0}, jitter{0}, loss{0};
  double count{0};
};

/// What messages among `members` cost.
struct message_costs {
  std::uint32_t members{1};
  std::uint32_t together{1};       ///< Largest number of members in one process.
  std::vector<equal_pairs> pairs;  ///< Empty if there are more than members_of_pairs members.

  /// The hops of a message from the first member up to the last one, from each to the next, and back.
  double hops_latency{0};       ///< Sum, in seconds, with the mean of jitter and the time of messages without bytes.
  double hops_lost_latency{0};  ///< Sum of the expected delays by losses, for each packet.
  double hops_seconds_per_byte{0};  ///< Sum of the times on wires, for each byte.
  double busiest_seconds{0};        ///< For how long the message occupies the busiest wire, if it has no bytes,
  double busiest_per_byte{0};       ///< and for each byte.
};

/// Number of members up to which every pair of them is looked at. Beyond, sending to everyone is no option: a plan
/// lists n² edges then.
constexpr std::uint32_t members_of_pairs = 1024;

/// What takes time in a process: until the thread of an actor wakes up, handling a message, and folding contributions.
/// Processes handle messages on two threads. Rounded such that few workers on the cores of one machine choose what is
/// the fastest there; docs/algorithms.md states them.
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
/// cut into chunks of at most `chunk` bytes (0: uncut), of which one follows the other.
double seconds_up_and_back(const message_costs& costs, double bytes, double chunk);

}  // namespace troupe::rules
