// Lanes in virtual time, for actors under CAF's test coordinator. A job is done when it is posted, and its result
// arrives later. Jobs that wait for their owner run on threads, but only one thread runs at a time.
#pragma once

#include "troupe/actors/support/lane.hpp"
#include "troupe/data/random.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

/// The cores of a node, which its lanes share: each job takes the core that is free first. Times are points in virtual
/// time.
class simulated_cores {
 public:
  using time = std::chrono::microseconds;
  explicit simulated_cores(std::size_t count) : free_(count) {}

  /// Takes a core for `length`, from `earliest` on. Returns when this begins.
  time take(time earliest, time length);

 private:
  std::vector<time> free_;
};

/// When a job of a simulation ran, in virtual time.
struct simulated_job {
  task what;
  std::chrono::microseconds free{0};  ///< When it could have begun, but for a core.
  std::chrono::microseconds begin{0}, end{0};
};

using simulated_job_listener = std::function<void(const simulated_job&)>;

struct simulated_lane_options {
  std::chrono::microseconds longest_job{100'000};  ///< Each job takes a random virtual time up to this limit.
  /// Returns the virtual time that a task takes on the lane of this actor; if empty, the time is random.
  std::function<std::chrono::microseconds(const std::string& actor, const task&)> duration_of{};
  std::string silent{};  ///< Name of an actor whose lane never answers.
  /// Returns the cores that the lane of this actor uses; if empty or null, it has one for itself.
  std::function<std::shared_ptr<simulated_cores>(const std::string& actor)> cores_of{};
  /// Returns what is called after each job of the lane of this actor; may be empty.
  std::function<simulated_job_listener(const std::string& actor)> listen_to{};
};

class simulated_lanes final : public lane_factory {
 public:
  simulated_lanes(std::uint64_t seed, simulated_lane_options options);
  std::unique_ptr<lane> make(const std::string& name) override;

 private:
  data::random_stream random_;
  simulated_lane_options options_;
};

}  // namespace troupe
