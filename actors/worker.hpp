// The worker: owns the current snapshot and walks the loop. It computes nothing and knows no algorithm.
#pragma once

#include "troupe/actors/compute.hpp"
#include "troupe/actors/coordinator.hpp"
#include "troupe/actors/port.hpp"
#include "troupe/actors/rules/schedule.hpp"

#include <caf/fwd.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

namespace troupe {

using worker_actor = directed_worker;

/// An exchange that the worker is a member of.
struct exchange_word {
  std::uint32_t place{0};  ///< Which one: key::place.
  slot sends{}, answers{};
  cadence when{};
  std::int64_t elements{0};  ///< Of [P | B], how many of x are exchanged.
  /// x changes while the gradient is computed (float buffers, by the forward pass; a shared memory, by others): it is
  /// exchanged behind it.
  bool gradient_first{false};
  /// Of a gradient: the pieces that leave by themselves while backward still works at the rest, in the order of
  /// leaving. None: it leaves whole.
  std::shared_ptr<const std::vector<range>> buckets{};
  bool on_device{false};  ///< departure::on_device.
};

/// One word of a loop.
using loop_word = std::variant<verb, exchange_word>;

struct worker_options {
  run_id run{};
  rank_id rank{};
  std::vector<loop_word> loop;
  schedule when;
  snapshot initial;
  std::chrono::milliseconds timeout{60'000};
  /// Steps that one request to compute may cover: few enough to stop soon, many enough that the thread wakes of a
  /// request cost nothing.
  std::uint32_t steps_at_once{16};
  /// Its compute actor waits for others in mid-step, and they keep that deadline.
  bool synchronised_norms{false};
};

/// Whom a worker speaks to. Coordinator and recorder may be on another node.
struct worker_contacts {
  compute_actor compute{};
  std::vector<port_actor> ports{};  ///< By place of the exchange; none where the worker is no member.
  milestone_sink coordinator{};
  snapshot_sink results{};  ///< Is shown what is evaluated or saved; none where another worker's is the same.
  progress_sink recorder{};
};

worker_actor spawn_worker(caf::actor_system& system, worker_options options, worker_contacts contacts);

}  // namespace troupe
