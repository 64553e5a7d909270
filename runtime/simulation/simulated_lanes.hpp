// Lanes in virtual time, for actors under CAF's test coordinator. A job is executed when it is posted, and its result
// arrives later. Jobs that wait for their owner run on threads, but only one thread runs at a time.
#pragma once

#include "troupe/actors/wire/lane.hpp"
#include "troupe/data/random/random.hpp"
#include "troupe/runtime/simulation/simulated_cores.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace troupe {

/// When a job of a simulation ran, in virtual time.
struct simulated_job {
  task what;
  std::chrono::microseconds begin{0}, end{0};
};

using simulated_job_listener = std::function<void(const simulated_job&)>;

struct simulated_lane_options {
  std::chrono::microseconds longest_job{100'000};  ///< Each job takes a random virtual time up to this limit.
  /// Returns the virtual time that a task takes on the lane of this actor; if empty, the time is random.
  std::function<std::chrono::microseconds(const actor_label& actor, const task&)> duration_of{};
  /// Returns the cores that the lane of this actor shares; if empty or null, the lane has a core of its own.
  std::function<std::shared_ptr<simulated_cores>(const actor_label& actor)> cores_of{};
  /// Returns the factor by which an advance takes longer on the lane of this actor. As in a real run, a lane that is
  /// slowed down computes at full speed and then idles. If empty, no lane is slowed down.
  std::function<double(const actor_label& actor)> slowdown_of{};
  /// Returns the function that is called after each job on the lane of this actor; may be empty.
  std::function<simulated_job_listener(const actor_label& actor)> listen_to{};
};

class simulated_lanes final : public lane_factory {
 public:
  simulated_lanes(std::uint64_t seed, simulated_lane_options options);
  std::unique_ptr<lane> make(const actor_label& owner) override;

 private:
  data::random_stream random_;
  simulated_lane_options options_;
};

}  // namespace troupe
