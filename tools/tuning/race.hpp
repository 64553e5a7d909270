// Which candidate is the first to reach the target on the network: the training of those that may be is simulated with
// real gradients, all for the same virtual time; the best third goes on for longer (successive halving: Jamieson and
// Talwalkar 2016, "Non-stochastic best arm identification and hyperparameter optimization", algorithm 1).
#pragma once

#include "troupe/tools/comparing/child_run.hpp"
#include "troupe/tools/comparing/comparison.hpp"
#include "troupe/tools/tuning/candidates.hpp"
#include "troupe/tools/tuning/timing.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace troupe::tuning {

/// A candidate, and what has become of it.
struct contender {
  candidate what{};
  std::string folder{};  ///< Name of its files and folders.
  pace step{};
  std::uint64_t steps{0};  ///< Steps of the whole run.
  std::string out{};       ///< Why it has left the race; empty for those that remain.
  /// A simulated training, up to a virtual time.
  struct training {
    std::uint64_t seed{0};
    double horizon{0};  ///< Seconds.
    comparing::run_result result{};
    std::optional<double> to_target{};  ///< Seconds until the target, between the evaluations before and after it.
  };
  std::vector<training> trainings{};  ///< At most one for each seed: the longest.

  bool is_in() const { return out.empty(); }
  /// Returns the seconds to the target of each training that reached it.
  std::vector<std::optional<double>> to_target() const;
};

struct race_options {
  std::filesystem::path folder{};
  std::optional<double> target{};  ///< Validation accuracy.
  double budget{0};                ///< Seconds for all trainings.
  unsigned parallel{1};            ///< Trainings at once.
  real_times real{};
  std::function<void(const std::string&)> say{};  ///< Receives a line about each round.
};

/// Marks candidates as out that cannot be the first: those that are no faster per step than exact averages in every
/// step, or than a candidate of their family that sends more.
void cut_by_pace(std::vector<contender>& all);

/// Returns the virtual time for which all contenders can be trained in so many seconds on this machine.
double horizon_within(double seconds, const std::vector<const contender*>& of, const race_options& how);

/// Trains in rounds until one contender has reached the target or the budget is spent; then the two best with two
/// further seeds. Trainings that the folder contains are not repeated. Sets `out` of those that were behind. Throws
/// std::exception if the folder cannot be written.
void race(std::vector<contender>& all, comparing::child_runner& runner, const race_options& how);

/// Returns the contenders from the best to the worst: first those that reached the target, by their time, then by their
/// accuracy, or loss, at the same virtual time.
std::vector<std::size_t> ranking(const std::vector<contender>& all, const race_options& how);

/// Returns when the curve crosses the target, if it does.
std::optional<double> seconds_to(double target, const std::vector<comparing::point>& curve);

}  // namespace troupe::tuning
