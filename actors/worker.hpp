// The worker: owns the current snapshot and walks the loop. It computes nothing and knows no algorithm.
#pragma once

#include "troupe/actors/compute.hpp"
#include "troupe/actors/coordinator.hpp"
#include "troupe/actors/port.hpp"
#include "troupe/actors/rules/schedule.hpp"

#include <caf/fwd.hpp>

#include <chrono>
#include <cstdint>
#include <variant>
#include <vector>

namespace troupe {

using worker_actor = directed_worker;

/// One word of a loop: a local verb, or the index of an exchange.
using loop_word = std::variant<verb, std::uint32_t>;

struct worker_options {
  run_id run{};
  rank_id rank{};
  std::vector<loop_word> loop;
  schedule when;
  snapshot initial;
  std::chrono::milliseconds timeout{60'000};
};

/// Whom a worker speaks to. Coordinator and recorder may be on another node.
struct worker_contacts {
  compute_actor compute{};
  std::vector<port_actor> ports{};  ///< By index of the exchange.
  milestone_sink coordinator{};
  snapshot_sink results{};  ///< Is shown what is evaluated or saved; none where another worker's is the same.
  progress_sink recorder{};
};

worker_actor spawn_worker(caf::actor_system& system, worker_options options, worker_contacts contacts);

}  // namespace troupe
