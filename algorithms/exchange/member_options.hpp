// What a member of an exchange is made from: the participants, the step at which the run begins, and the settings.
#pragma once

#include "troupe/algorithms/exchange/membership.hpp"
#include "troupe/algorithms/messages/part.hpp"
#include "troupe/algorithms/messages/state_dict.hpp"
#include "troupe/algorithms/rules/mixing_schedule.hpp"
#include "troupe/algorithms/rules/schedule.hpp"
#include "troupe/algorithms/training/optimizer.hpp"
#include "troupe/files/setting.hpp"
#include "troupe/models/storage/buffer_pool.hpp"
#include "troupe/models/storage/flat.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace troupe::models {
class exclusive_lock;
}

namespace troupe {

class remote_actor;
class shared_memory;

/// What an exchange sends, what it answers, and its default position in a loop. An exchange that answers a gradient
/// with parameters has already applied it, so no `apply` follows.
struct carriage {
  slot sends{slot::gradient};    ///< What a worker contributes.
  slot answers{slot::gradient};  ///< What a worker receives.
  bool behind_apply{false};      ///< Whether the exchange follows `apply` in the default loop.

  /// Returns whether the exchange applies the gradients itself.
  bool makes_step() const { return sends == slot::gradient && answers == slot::parameters; }
};

/// Facts about an exchange that depend only on its settings and the number of its members: computed once, shared by all
/// members, and never changed, so that any thread may read them.
struct common_facts {
  virtual ~common_facts() = default;
  /// Returns the mixing matrices if each member's answer is a mixture with weights fixed by the settings; else null.
  virtual const rules::mixing_schedule* mixing() const { return nullptr; }
};

/// What a member is made from.
struct member_options {
  membership among{};           ///< Participants of the exchange.
  std::uint64_t first_step{0};  ///< Steps that the run has completed before this member begins.
  std::uint64_t seed{0};        ///< run.seed, the same for all members; see data::keyed.
  std::uint32_t place{0};       ///< Index of the exchange in the loop: key::place of all its parts.
  /// Layout of the exchanged tensor: the parameters, and the float buffers if they are mixed.
  models::flat_layout layout{};
  std::int64_t first_element{0};  ///< Position of the layout's first element in the flat storage.
  carriage carries{};             ///< What is sent and answered.
  models::buffer_pool pool{};     ///< Memory for results.
  setting_values settings{};      ///< Values of exchange_kind::settings with defaults filled in.
  /// Settings of each of `buckets`, if they were chosen for each bucket; else null.
  std::shared_ptr<const std::vector<setting_values>> settings_by_bucket{};
  /// Result of exchange_kind::make_common for these settings. If null, a member that needs the facts computes them.
  std::shared_ptr<const common_facts> common{};
  /// Maximum size, in elements, of the pieces into which pipelined routes cut the gradient; 0 for the largest size the
  /// route allows. Affects the time, never the bits.
  std::int64_t chunk_elements{0};
  /// Pieces that are exchanged separately, each as soon as it is contributed, so that contributions may arrive bucket
  /// by bucket. In the order in which they leave; together they cover the whole. Empty for a single piece.
  std::vector<range> buckets{};
  cadence due{};    ///< The steps in which the exchange happens.
  schedule when{};  ///< Milestones at which a server will be asked for what it holds.
  /// Whether the schedule of the learning rate counts the updates of all workers together, divided by their number;
  /// otherwise it counts the steps of each worker.
  bool counts_updates{false};
  /// Optimizer of the run: servers apply updates with it, and wrappers may read its learning rate.
  optimizer_options optimizer{};
  at::Tensor initial{};                                   ///< Initial values [P + B] of all workers.
  std::shared_ptr<shared_memory> memory{};                ///< Shared memory for the server that holds it.
  std::shared_ptr<models::exclusive_lock> memory_lock{};  ///< Lock of that memory, or null.
  std::shared_ptr<remote_actor> remote{};                 ///< The actor for which the server stands in, or null.
  /// Result of member::state() of the member that this one continues; null for a new one. A constructor that cannot use
  /// it throws state_error.
  std::shared_ptr<const state_dict> restored{};
};

}  // namespace troupe
