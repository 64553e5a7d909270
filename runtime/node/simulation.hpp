// A run under CAF's test coordinator: the very actors of a node, one message at a time, in virtual time, in an order
// drawn from a seed. Jobs of lanes that wait for their owner have threads, of which one runs at any time. Equal seeds
// give equal orders, so what fails under a seed can be looked at again.
#pragma once

#include "troupe/actors/journal.hpp"
#include "troupe/runtime/node/launcher.hpp"
#include "troupe/runtime/node/node.hpp"
#include "troupe/runtime/plan/plan.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace troupe {

struct simulation_options {
  std::uint64_t seed{0};                           ///< Of the schedule; the run's own is in the plan.
  std::chrono::microseconds longest_job{100'000};  ///< A lane's job takes a random virtual time up to this.
  /// Called after each message with how many there were: to interrupt, to break something, to check invariants.
  std::function<void(const crew&, std::uint64_t)> after_event{};
  std::string silent_lane{};  ///< The actor of this name gets a lane that never answers.
  decltype(launch_options::open_device) open_device{};
  std::uint64_t most_events{10'000'000};  ///< A run with more is taken for a hang.
};

/// Throws std::runtime_error, naming the seed, where the run does not end.
run_end simulate(const plan& plan, const data::dataset_pair& data, at::Tensor initial, models::buffer_pool pool,
                 std::shared_ptr<journal> book, const simulation_options& options);

}  // namespace troupe
