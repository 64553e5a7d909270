// A run over several nodes in virtual time: the supervisors, crews and links that are deployed, each node with an actor
// system of its own, and nothing between them but a simulated network. One message is handled at a time, in an order
// drawn from a seed, so that a fault can be injected before any of them and repeated.
#pragma once

#include "troupe/algorithms/messages/journal.hpp"
#include "troupe/algorithms/support/trace.hpp"
#include "troupe/runtime/plan/plan.hpp"
#include "troupe/runtime/simulation/simulated_lanes.hpp"
#include "troupe/runtime/supervision/run_end.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace troupe::emulation {
class network;
}

namespace troupe {

/// A fault of a simulated run. Lasting faults last to the end of the run if their time is 0.
struct node_fault {
  enum class kind : std::uint8_t {
    kill,           ///< `node` is killed.
    freeze,         ///< `node` stands still for `lasting`.
    cut,            ///< Nothing passes between `node` and `other` for `lasting`.
    reset_tensors,  ///< The tensor connection between them is reset.
    reset_control,  ///< The control connection between them is reset.
    slow,           ///< For `lasting`, messages between them take `delay` longer.
    interrupt,      ///< `node` receives SIGTERM.
  };
  kind what{kind::kill};
  std::uint64_t before{0};  ///< It happens before the message with this number, from 0, is delivered between nodes;
  std::optional<std::uint64_t> at_step{};              ///< or when every worker has completed so many steps;
  std::optional<std::chrono::microseconds> at_time{};  ///< or so long after training began.
  std::uint32_t node{1}, other{0};
  std::chrono::microseconds lasting{0}, delay{0};
  std::size_t planned{0};  ///< Its index in the plan, if it is planned.
};

struct simulate_nodes_options {
  std::uint64_t seed{0};  ///< Seed of the schedule and the network; the seed of the run is in the plan.
  std::vector<node_fault> faults{};
  simulated_lane_options lanes{.longest_job = std::chrono::microseconds{10'000}};  ///< Of every node.
  std::chrono::microseconds latency{1'000};           ///< Each message takes a random virtual time up to this limit.
  std::int64_t window{2 << 20};                       ///< See transport::tcp_options::window_bytes.
  std::uint64_t most_events{10'000'000};              ///< A run with more events is considered hung.
  std::uint64_t stop_after{0};                        ///< See simulation_options, as for the following.
  const std::atomic<int>* signal{nullptr};            ///< Interrupts the first node.
  std::shared_ptr<std::chrono::nanoseconds> clock{};  ///< See simulation_options::clock.
  bool computes{true};
  std::shared_ptr<emulation::network> links{};
  std::shared_ptr<trace_sink> trace{};
};

/// How a simulated run ended.
struct simulated_end {
  struct node {
    std::optional<run_end> end;        ///< Nothing if it was killed, or was frozen when the others had ended.
    std::vector<std::string> reports;  ///< What it reported to its user.
    std::chrono::microseconds ended_at{0};
  };
  std::vector<node> nodes;                  ///< By index in the plan.
  std::uint64_t messages{0};                ///< Number of messages delivered between nodes.
  std::uint64_t events{0};                  ///< Number of messages that were handled, by actors or by links.
  std::chrono::microseconds faulted_at{0};  ///< Virtual time of the last fault.
  std::set<std::size_t> not_injected;       ///< By index in the plan: faults for which the run ended too early.
};

/// Simulates a run of all nodes of the plan. `book` is the journal of the first node. Throws std::runtime_error, naming
/// the seed, if a node that is neither killed nor frozen does not end, except after stop_after events.
simulated_end simulate_nodes(const plan& plan, const data::dataset_pair& data, at::Tensor initial,
                             models::buffer_pool pool, std::shared_ptr<journal> book,
                             const simulate_nodes_options& options);

}  // namespace troupe
