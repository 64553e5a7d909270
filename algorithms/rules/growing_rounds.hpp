// Rounds of local steps that become longer as the learning rate falls.
#pragma once

#include "troupe/algorithms/rules/learning_rate.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace troupe::rules {

/// The length of rounds: a round that begins with the learning rate lr lasts ⌊(growth / lr)²⌋ steps, and at least
/// `least`. Source: Gu, Lyu, Arora et al., "A Quadratic Synchronization Rule for Distributed Deep Learning", ICLR 2024,
/// section 2.
struct growing_interval {
  std::uint64_t least{1};
  double growth{0};
};

/// Returns after how many completed steps of the run each round ends. The first one begins after `begin` steps, and the
/// last one ends with the run. `lr` is the learning rate to which `schedule` applies; during a warm-up, the rate is
/// that of its end.
inline std::vector<std::uint64_t> growing_rounds(const growing_interval& interval, double lr,
                                                 const learning_rate& schedule, std::uint64_t begin = 0) {
  std::vector<std::uint64_t> ends;
  for (auto step = begin; step < schedule.steps;) {
    const auto ratio = interval.growth / (lr * schedule.at(std::max(step, schedule.warmup_steps)));
    const auto left = schedule.steps - step;
    const auto longest = static_cast<double>(left);
    const auto wanted = std::floor(ratio * ratio);  // infinite if the rate is 0
    const auto length = wanted < longest ? static_cast<std::uint64_t>(wanted) : left;
    step += std::clamp(length, std::min(interval.least, left), left);
    ends.push_back(step);
  }
  return ends;
}

}  // namespace troupe::rules
