// What a port and its member are made from.
#pragma once

#include "troupe/actors/messages.hpp"
#include "troupe/actors/optimizer.hpp"
#include "troupe/actors/rules/schedule.hpp"
#include "troupe/actors/support/setting.hpp"
#include "troupe/models/buffer_pool.hpp"
#include "troupe/models/flat.hpp"

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

class shared_memory;

/// What an exchange sends, what it answers, and its default position in a loop. An exchange that answers a gradient
/// with parameters has already applied it, so no `apply` follows.
struct carriage {
  slot sends{slot::gradient}, answers{slot::gradient};
  bool behind_apply{false};

  bool makes_step() const { return sends == slot::gradient && answers == slot::parameters; }
};

/// Options of a port and its member.
struct port_options {
  run_id run{};
  std::uint64_t seed{0};        ///< run.seed, the same for all members; see data::keyed.
  rank_id rank{};               ///< Index of the port's owner among the members and servers.
  std::uint32_t world_size{1};  ///< Number of members of this exchange, n.
  std::uint32_t servers{0};     ///< Number of servers; their indices start at n.
  /// Global ids of members and servers, indexed by position, ascending; empty means id == index.
  std::vector<rank_id> ids{};
  std::uint32_t place{0};        ///< Index of the exchange in the loop: key::place of all its parts.
  std::string name{"exchange"};  ///< Name of the exchange in the topology file.
  models::flat_layout layout{};
  models::buffer_pool pool{};
  setting_values settings{};  ///< Values of exchange_kind::settings with defaults filled in.
  std::chrono::milliseconds timeout{60'000};
  /// Maximum size, in elements, of the pieces into which pipelined routes cut the gradient; 0 for the largest size the
  /// route allows. Affects the time, never the bits.
  std::int64_t chunk_elements{0};
  /// Pieces that are exchanged separately, each as soon as it is contributed, so that contributions may arrive bucket
  /// by bucket. In the order of leaving, covering the whole; empty for a single piece.
  std::vector<range> buckets{};
  /// The worker awaits each bucket separately (key::part is its index), in any order; the step ends with the last
  /// bucket.
  bool answers_buckets{false};
  pass_count passes{};  ///< Number of exchanges per step of the loop, if each micro-batch has one.
  cadence due{};
  carriage carries{};
  schedule when{};  ///< Milestones at which a server will be asked for what it holds.
  /// Whether the schedule of the learning rate counts the updates of all workers together, divided by their number;
  /// otherwise it counts the steps of each worker.
  bool counts_updates{false};
  optimizer_options optimizer{};            ///< Optimizer options for servers that apply updates.
  at::Tensor initial{};                     ///< Initial values [P + B] of all workers; for servers.
  std::shared_ptr<shared_memory> memory{};  ///< Shared memory for the server that holds it.

  bool is_server() const { return static_cast<std::uint32_t>(rank) >= world_size; }
};

}  // namespace troupe
